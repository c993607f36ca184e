-- The resources that a state had at a version, as the rows said then.
--
-- Raises  KLN01  no such state
--         KLN03  no such version of it
create or replace function kilolock.resources_at(p_state text, p_version bigint)
  returns table (resource_id bigint, address text, module_path text, mode text, type text, name text, index_key jsonb,
    deposed_key text, provider text, schema_version bigint, status text, attributes jsonb, sensitive_paths jsonb, since_version bigint)
  language plpgsql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_state_id bigint := kilolock._state_id_of_version(p_state, p_version);
begin
  return query
    select r.id, r.address, r.module_path, r.mode, r.type, r.name, r.index_key, r.deposed_key, r.provider,
           r.schema_version, r.status, r.attributes, r.sensitive_paths, r.since_version
    from kilolock.states s
    join kilolock.resources r on r.state_version_id = s.current_version_id
    where s.id = v_state_id and r.since_version <= p_version
    union all
    select p.resource_id, p.address, p.module_path, p.mode, p.type, p.name, p.index_key, p.deposed_key, p.provider,
           p.schema_version, p.status, p.attributes, p.sensitive_paths, p.from_version
    from kilolock.past_resources p
    where p.state_id = v_state_id and p.until_version > p_version and p.from_version <= p_version;
end;
$$;

comment on function kilolock.resources_at(text, bigint) is
  'The resources that a state had at a version.';
revoke all on function kilolock.resources_at(text, bigint) from public;
grant execute on function kilolock.resources_at(text, bigint) to kilolock_reader, kilolock_app;
