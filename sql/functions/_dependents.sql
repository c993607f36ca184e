-- The live resources outside a set that depend on a block of the set, one row for each pair of resource and block.
--
-- Goes by the names in the lists of dependencies, so that blocks without live instances are found too.
--
-- p_blocks     ids of the blocks
-- p_resources  ids of the live resources of the set
create or replace function kilolock._dependents(p_state kilolock.states, p_blocks uuid[], p_resources bigint[])
  returns table (address text, depends_on text)
  language sql
  stable
  set search_path = pg_catalog, pg_temp
as $$
  select distinct r.address, kilolock._write_address(b.module_path, b.mode, b.type, b.name, null)
  from kilolock.resource_blocks b
  join kilolock.dependency_set_members m on m.config_id = b.config_id
  join kilolock.resources r on r.dependency_set_id = m.dependency_set_id and r.state_version_id = p_state.current_version_id
  where b.id = any (p_blocks) and r.id <> all (p_resources)
    and (strpos(r.module_path, '[') = 0 or strpos(b.module_path, '[') = 0 or kilolock.same_module_instance(r.module_path, b.module_path))
$$;

comment on function kilolock._dependents(kilolock.states, uuid[], bigint[]) is
  'The live resources that depend on some blocks.';
revoke all on function kilolock._dependents(kilolock.states, uuid[], bigint[]) from public;
