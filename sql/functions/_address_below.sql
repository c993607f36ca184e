-- An address of a list that p_path covers: p_path itself if it stands there.
create or replace function kilolock._address_below(p_addresses text[], p_path text)
  returns text
  language sql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
  select case
    when p_path = any(p_addresses) then p_path
    else (
      select a.address
      from unnest(p_addresses) a(address)
      where starts_with(a.address, p_path || '.') or starts_with(a.address, p_path || '[')
      limit 1)
  end
$$;

comment on function kilolock._address_below(text[], text) is
  'An address of a list that a path covers.';
revoke all on function kilolock._address_below(text[], text) from public;
