-- Addresses and all that is above them: x stands in the answer exactly if x covers one of p_addresses.
--
-- An address covers itself and whatever continues it with "." or "[": its instances, and what is in a module. Each step
-- cuts off the last part; steps that meet are one, so that 5,000 instances of a resource cost little more than 5,000.
create or replace function kilolock._covering_paths(p_addresses text[])
  returns text[]
  language sql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
  with recursive path(address) as (
    select a.address from unnest(p_addresses) a(address)
    union
    select c.address
    from path p
    cross join lateral (select strpos(reverse(translate(p.address, '[', '.')), '.') as cut) l
    cross join lateral (select left(p.address, -l.cut) as address) c
    where l.cut > 0 and c.address <> ''
  )
  select coalesce(array_agg(p.address), '{}') from path p
$$;

comment on function kilolock._covering_paths(text[]) is
  'Addresses and all that covers them.';
revoke all on function kilolock._covering_paths(text[]) from public;
