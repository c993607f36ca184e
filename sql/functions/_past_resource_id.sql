-- The id that an address had before, so that a resource made anew under it keeps it; null where it never lived or
-- where its id moved on to another address, even if that is gone too: both may come back at once.
create or replace function kilolock._past_resource_id(p_state_id bigint, p_address text, p_deposed_key text)
  returns bigint
  language sql
  stable
  set search_path = pg_catalog, pg_temp
  set enable_nestloop = on
as $$
  select x.resource_id
  from kilolock.past_resources x
  where x.address = p_address and x.state_id = p_state_id and coalesce(x.deposed_key, '') = coalesce(p_deposed_key, '')
    and not exists (select from kilolock.resources r where r.id = x.resource_id)
    and not exists (
      select from kilolock.past_resources y where y.resource_id = x.resource_id and y.until_version > x.until_version and y.address <> x.address)
  order by x.until_version desc
  limit 1
$$;

comment on function kilolock._past_resource_id(bigint, text, text) is
  'The id that an address of a state had before.';
revoke all on function kilolock._past_resource_id(bigint, text, text) from public;
