-- The addresses that a delta touches, as resources has them.
--
-- What is no delta makes no addresses or an error of class 22; _write_delta says what is wrong with it.
create or replace function kilolock._delta_addresses(p_delta jsonb)
  returns text[]
  language sql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
  select coalesce(array_agg(distinct x.address), '{}')
  from (
    select concat(nullif(p.value ->> 'module', '') || '.', case when p.value ->> 'mode' = 'data' then 'data.' end,
             p.value ->> 'type', '.', p.value ->> 'name', case jsonb_typeof(i.value -> 'index_key')
               when 'string' then '[' || kilolock._quote_key(i.value ->> 'index_key') || ']'
               when 'number' then '[' || trunc((i.value ->> 'index_key')::numeric) || ']'
             end) as address
    from jsonb_array_elements(case when jsonb_typeof(p_delta -> 'put') = 'array' then p_delta -> 'put' end) p(value)
    cross join lateral kilolock._read_json(p.value ->> 'instance', true) i(value)
    union all
    select r.value ->> 'address'
    from jsonb_array_elements(case when jsonb_typeof(p_delta -> 'remove') = 'array' then p_delta -> 'remove' end) r(value)
  ) x
  where x.address is not null
$$;

comment on function kilolock._delta_addresses(jsonb) is
  'The addresses that a delta touches.';
revoke all on function kilolock._delta_addresses(jsonb) from public;
