-- What depends on an address, directly or not, nearest first: what a change of it may touch.
--
-- Walks blocks, not instances, and expands each step: two counted blocks of 50,000 are two steps, not 2.5 billion
-- edges. A step is the instances of one block that share one dependency set. p_depth ends after that many hops. The
-- address itself is not part of its own radius, even in a ring.
--
-- Planned anew for each step, with its number of blocks, and without scans of a whole table: PostgreSQL keeps no page of these.
--
-- Raises  KLN01  no such state
--         KLN04  no such address in it
create or replace function kilolock.blast_radius(p_state text, p_address text, p_depth integer default null)
  returns table (address text, type text, depth integer, resource_id bigint)
  language plpgsql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
  set work_mem = '64MB'
  set enable_seqscan = off
  set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  v_start  kilolock.resources := kilolock._live_resource(p_state, p_address);
  v_level  integer := 0;
  v_seen   integer := 0;
  v_blocks uuid[] := array[v_start.block_id];
  v_sets   uuid[] := array[null::uuid];
begin
  while cardinality(v_blocks) > v_seen and (p_depth is null or v_level < p_depth) loop
    v_level := v_level + 1;
    select cardinality(v_blocks), v_blocks || array_agg(x.block_id), v_sets || array_agg(x.dependency_set_id)
    into v_seen, v_blocks, v_sets
    from (
      select distinct p.block_id, p.dependency_set_id
      from unnest(v_blocks[v_seen + 1:]) n(block_id)
      join kilolock.resource_blocks b on b.id = n.block_id
      join kilolock.dependency_set_members m on m.config_id = b.config_id
      join kilolock.block_dependency_sets p on p.dependency_set_id = m.dependency_set_id
      join kilolock.resource_blocks f on f.id = p.block_id
      where (strpos(f.module_path, '[') = 0 or strpos(b.module_path, '[') = 0
             or kilolock.same_module_instance(f.module_path, b.module_path))
        -- A scalar subquery is looked up for each pair; exists would hash every live row at every level.
        and (select true from kilolock.resources r
             where r.block_id = p.block_id and r.dependency_set_id = p.dependency_set_id limit 1)
        and not exists (
          select from unnest(v_blocks, v_sets) s(block_id, dependency_set_id)
          where s.block_id = p.block_id and s.dependency_set_id = p.dependency_set_id)
    ) x;
    return query
      select r.address, r.type, v_level, r.id
      from unnest(v_blocks[v_seen + 1:], v_sets[v_seen + 1:]) s(block_id, dependency_set_id)
      join kilolock.resources r on r.block_id = s.block_id and r.dependency_set_id = s.dependency_set_id
      where r.id <> v_start.id;
  end loop;
end;
$$;

comment on function kilolock.blast_radius(text, text, integer) is
  'Every live resource that depends on an address, directly or not, with the number of hops.';
revoke all on function kilolock.blast_radius(text, text, integer) from public;
grant execute on function kilolock.blast_radius(text, text, integer) to kilolock_reader, kilolock_app;
