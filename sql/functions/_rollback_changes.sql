-- What a state's resources and outputs would become if it went back from its head to a version, one by one.
--
-- Looks only at what changed since: live rows that began after the version, and past rows that lived at it. An output's
-- address is output.NAME, its type is "output", and it has no mode.
create or replace function kilolock._rollback_changes(p_state kilolock.states, p_version bigint)
  returns table (change text, address text, deposed_key text, type text, mode text, from_address text)
  language sql
  stable
  set search_path = pg_catalog, pg_temp
as $$
  select case
           when l.id is null then 'create'
           when p.resource_id is null then 'delete'
           when l.address <> p.address then 'move'
           else 'update'
         end,
         coalesce(p.address, l.address), coalesce(p.deposed_key, l.deposed_key), coalesce(p.type, l.type), coalesce(p.mode, l.mode),
         case when l.address <> p.address then l.address end
  from (
    select r.*
    from kilolock.resources r
    where r.state_version_id = p_state.current_version_id and r.since_version > p_version
  ) l
  full join (
    select x.*
    from kilolock.past_resources x
    where x.state_id = p_state.id and x.until_version > p_version and x.from_version <= p_version
  ) p on p.resource_id = l.id
  where (l.address, l.attributes, l.schema_version, l.status, l.provider, l.sensitive_paths, l.dependency_set_id)
    is distinct from (p.address, p.attributes, p.schema_version, p.status, p.provider, p.sensitive_paths, p.dependency_set_id)
  union all
  select case when l.name is null then 'create' when p.name is null then 'delete' else 'update' end,
         'output.' || coalesce(p.name, l.name), null, 'output', null, null
  from (
    select o.name, o.value, o.type, o.sensitive
    from kilolock.outputs o
    where o.state_id = p_state.id and o.since_version > p_version
  ) l
  full join (
    select x.name, x.value, x.type, x.sensitive
    from kilolock.past_outputs x
    where x.state_id = p_state.id and x.until_version > p_version and x.from_version <= p_version
  ) p on p.name = l.name
  where (l.value, l.type, l.sensitive) is distinct from (p.value, p.type, p.sensitive)
  order by 2, 3 nulls first
$$;

comment on function kilolock._rollback_changes(kilolock.states, bigint) is
  'What a state''s resources and outputs would become if it went back to a version.';
revoke all on function kilolock._rollback_changes(kilolock.states, bigint) from public;
