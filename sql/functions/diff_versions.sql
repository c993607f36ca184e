-- What is different between two versions of a state, resource by resource, either way in time.
--
-- A resource is told by its id, so that one that moved shows as one row with both addresses.
--
-- Raises  KLN01  no such state
--         KLN03  no such version of it
create or replace function kilolock.diff_versions(p_state text, p_from bigint, p_to bigint)
  returns table (change text, address text, deposed_key text, type text, from_address text, from_attributes jsonb,
    to_attributes jsonb, resource_id bigint)
  language sql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
as $$
  select case
           when f.resource_id is null then 'create'
           when t.resource_id is null then 'delete'
           when f.address <> t.address then 'move'
           else 'update'
         end,
         coalesce(t.address, f.address), coalesce(t.deposed_key, f.deposed_key), coalesce(t.type, f.type), f.address,
         f.attributes, t.attributes, coalesce(t.resource_id, f.resource_id)
  from kilolock.resources_at(p_state, p_from) f
  full join kilolock.resources_at(p_state, p_to) t on t.resource_id = f.resource_id
  where f.since_version is distinct from t.since_version
    and (f.address, f.attributes, f.schema_version, f.status, f.provider, f.sensitive_paths)
      is distinct from (t.address, t.attributes, t.schema_version, t.status, t.provider, t.sensitive_paths)
  order by 2
$$;

comment on function kilolock.diff_versions(text, bigint, bigint) is
  'What is different between two versions of a state, resource by resource.';
revoke all on function kilolock.diff_versions(text, bigint, bigint) from public;
grant execute on function kilolock.diff_versions(text, bigint, bigint) to kilolock_reader, kilolock_app;
