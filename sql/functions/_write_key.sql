-- A key as it stands between the brackets of an address; null for none.
create or replace function kilolock._write_key(p_key jsonb)
  returns text
  language sql
  immutable
as $$
  select case jsonb_typeof(p_key)
    when 'string' then kilolock._quote_key(p_key #>> '{}')
    when 'number' then trunc((p_key #>> '{}')::numeric)::text
  end
$$;

comment on function kilolock._write_key(jsonb) is
  'A key as it stands between the brackets of an address.';
revoke all on function kilolock._write_key(jsonb) from public;
