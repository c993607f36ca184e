-- Those addresses of a list that none of p_covers covers.
create or replace function kilolock._uncovered(p_addresses text[], p_covers text[])
  returns text[]
  language sql
  immutable
  set search_path = pg_catalog, pg_temp
  set enable_nestloop = off
as $$
  with recursive path(address, above) as (
    select a.address, a.address from unnest(p_addresses) a(address)
    union all
    select p.address, c.above
    from path p
    cross join lateral (select strpos(reverse(translate(p.above, '[', '.')), '.') as cut) l
    cross join lateral (select left(p.above, -l.cut) as above) c
    where l.cut > 0 and c.above <> ''
  )
  select coalesce(array_agg(a.address), '{}')
  from unnest(p_addresses) a(address)
  where not exists (
    select from path p join unnest(p_covers) c(address) on c.address = p.above where p.address = a.address)
$$;

comment on function kilolock._uncovered(text[], text[]) is
  'The addresses of a list that no address of another list covers.';
revoke all on function kilolock._uncovered(text[], text[]) from public;
