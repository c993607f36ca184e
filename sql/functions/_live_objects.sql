-- The live objects at an address: the current one and deposed ones.
--
-- With settings of its own, so that a planner that knows nothing yet of the rows takes the index of addresses.
create or replace function kilolock._live_objects(p_state kilolock.states, p_address text)
  returns table (id bigint, module_path text, mode text, type text, name text, index_key jsonb, deposed_key text)
  language plpgsql
  stable
  rows 1
  set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
as $$
#variable_conflict use_column
begin
  return query
    select r.id, r.module_path, r.mode, r.type, r.name, r.index_key, r.deposed_key
    from (
      select x.id, x.module_path, x.mode, x.type, x.name, x.index_key, x.deposed_key, x.state_version_id
      from kilolock.resources x
      where x.address = p_address
      offset 0
    ) r
    where r.state_version_id = p_state.current_version_id;
end;
$$;

comment on function kilolock._live_objects(kilolock.states, text) is
  'The live objects at an address.';
revoke all on function kilolock._live_objects(kilolock.states, text) from public;
