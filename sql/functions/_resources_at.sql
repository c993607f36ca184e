-- The resources that a state had at a version: live rows that were so then already, and past rows that were so then.
--
-- Without settings of its own, so that the query becomes part of the caller's.
create or replace function kilolock._resources_at(p_state_id bigint, p_version bigint)
  returns table (resource_id bigint, address text, module_path text, mode text, type text, name text, index_key jsonb,
    deposed_key text, provider text, schema_version bigint, status text, attributes jsonb, sensitive_paths jsonb, since_version bigint)
  language sql
  stable
as $$
  select r.id, r.address, r.module_path, r.mode, r.type, r.name, r.index_key, r.deposed_key, r.provider,
         r.schema_version, r.status, r.attributes, r.sensitive_paths, r.since_version
  from kilolock.states s
  join kilolock.resources r on r.state_version_id = s.current_version_id
  where s.id = p_state_id and r.since_version <= p_version
  union all
  select p.resource_id, p.address, p.module_path, p.mode, p.type, p.name, p.index_key, p.deposed_key, p.provider,
         p.schema_version, p.status, p.attributes, p.sensitive_paths, p.from_version
  from kilolock.past_resources p
  where p.state_id = p_state_id and p.until_version > p_version and p.from_version <= p_version
$$;

comment on function kilolock._resources_at(bigint, bigint) is
  'The resources that a state had at a version.';
revoke all on function kilolock._resources_at(bigint, bigint) from public;
