-- What it takes to bring some resources back to what they were at a version.
--
-- is_known   whether the address meant anything, now or then
-- taken      an address that one of them had and that something else has now
-- needed     one that would go although another, needed_by, depends on it
-- delta      for _write_delta; what is the same text already is not part of it
-- changes, dependents  as rollback_resource answers them
create or replace function kilolock._plan_resource_rollback(
  p_state kilolock.states, p_target kilolock.version_documents, p_address text,
  out is_known boolean, out changed boolean, out taken text, out needed text, out needed_by text, out delta jsonb,
  out changes json, out dependents json
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  set jit = off
as $$
declare
  v_salt   text;
  v_ids    bigint[];
  v_blocks uuid[];
begin
  select s.salt into v_salt from kilolock.state_salts s where s.state_id = p_state.id;

  -- The live resources and those of then that the address means; both sides of each of them count.
  select array_agg(distinct x.id) into v_ids
  from (
    select r.id
    from kilolock.resources r
    where r.state_version_id = p_state.current_version_id
      and kilolock._matches_address(p_address, r.address, r.module_path, r.mode, r.type, r.name)
    union all
    select p.resource_id
    from kilolock.past_resources p
    where p.state_id = p_state.id and p.until_version > p_target.version and p.from_version <= p_target.version
      and kilolock._matches_address(p_address, p.address, p.module_path, p.mode, p.type, p.name)
  ) x;
  is_known := v_ids is not null;
  if not is_known then
    return;
  end if;

  with now as materialized (
    select r.id, r.block_id, r.address, r.deposed_key, r.instance_hash, r.provider, r.since_version, r.mode, r.type, r.name,
           r.module_path, r.index_key
    from kilolock.resources r
    where r.state_version_id = p_state.current_version_id and r.id = any (v_ids)
  ),
  past as materialized (
    select p.resource_id as id, p.block_id, p.address, p.deposed_key, p.mode, p.type, p.name, p.module_path, p.index_key
    from kilolock.past_resources p
    where p.state_id = p_state.id and p.until_version > p_target.version and p.from_version <= p_target.version
      and p.resource_id = any (v_ids)
  ),
  old as materialized (
    select p.* from past p
    union all
    select n.id, n.block_id, n.address, n.deposed_key, n.mode, n.type, n.name, n.module_path, n.index_key
    from now n
    where n.since_version <= p_target.version
  ),
  content as materialized (
    select d.*
    from (select coalesce(jsonb_agg(distinct jsonb_build_object('module', o.module_path, 'mode', o.mode, 'type', o.type,
            'name', o.name)), '[]') as blocks from past o) k
    cross join kilolock._document_instances(kilolock._read_document(p_target), k.blocks) d
    where k.blocks <> '[]'
  ),
  pair as materialized (
    select coalesce(o.id, n.id) as id, n.id is not null as is_now, o.id is not null as was, n.address as now_address,
           n.deposed_key as now_deposed, o.address, o.deposed_key, o.block_id as old_block, n.block_id as now_block,
           o.module_path, o.mode, o.type, o.name, c.content, c.provider as old_provider, n.provider as now_provider,
           n.address is distinct from o.address or c.content is not null
             and n.instance_hash is distinct from substr(sha256(convert_to(v_salt || '{' || c.content || e'\n        }', 'UTF8')), 1, octet_length(n.instance_hash)) as differs
    from old o
    full join now n on n.id = o.id
    left join content c on c.module = o.module_path and c.mode = o.mode and c.type = o.type and c.name = o.name
      and c.index_key is not distinct from o.index_key and c.deposed = coalesce(o.deposed_key, '')
  ),
  -- A block has one provider: that of then only where all of its instances go back.
  put as (
    select coalesce(jsonb_agg(jsonb_build_object('module', p.module_path, 'mode', p.mode, 'type', p.type, 'name', p.name,
             'provider', coalesce((
               select r.provider from kilolock.resources r
               where r.state_version_id = p_state.current_version_id and r.module_path = p.module_path and r.mode = p.mode
                 and r.type = p.type and r.name = p.name and r.id <> all (v_ids)
               limit 1), p.old_provider),
             'instance', '{' || p.content || e'\n        }')), '[]') as list
    from pair p
    where p.was and p.differs
  ),
  remove as (
    select coalesce(jsonb_agg(jsonb_build_object('address', p.now_address, 'deposed', p.now_deposed)), '[]') as list
    from pair p
    where p.is_now and (not p.was or p.now_address <> p.address)
      and not exists (
        select from pair o
        where o.was and o.differs and o.address = p.now_address and coalesce(o.deposed_key, '') = coalesce(p.now_deposed, ''))
  ),
  going as (
    select d.address, d.depends_on
    from kilolock._dependents(p_state, array(select p.now_block from pair p where p.is_now and not p.was), v_ids) d
    order by 2, 1
    limit 1
  )
  select (select jsonb_build_object('put', p.list, 'remove', r.list, 'moved', (
              select coalesce(jsonb_agg(jsonb_build_object('from', m.now_address, 'to', m.address, 'deposed', m.deposed_key)), '[]')
              from pair m
              where m.is_now and m.was and m.now_address <> m.address))
          from put p cross join remove r),
         (select min(r.address)
          from pair p
          join kilolock.resources r on r.address = p.address and r.state_version_id = p_state.current_version_id
            and coalesce(r.deposed_key, '') = coalesce(p.deposed_key, '') and r.id <> all (v_ids)
          where p.was and p.differs),
         (select array_agg(b.id) from (select p.old_block as id from pair p union select p.now_block from pair p) b where b.id is not null),
         (select g.depends_on from going g), (select g.address from going g),
         (select coalesce(json_agg(json_build_object('change', x.change, 'address', x.address, 'deposed', x.deposed,
                   'from_address', x.from_address) order by x.address, x.deposed nulls first), '[]')
          from (
            select case when not p.was then 'delete' when not p.is_now then 'create' when p.now_address <> p.address then 'move'
                     else 'update' end as change,
                   coalesce(p.address, p.now_address) as address, coalesce(p.deposed_key, p.now_deposed) as deposed,
                   case when p.was and p.now_address <> p.address then p.now_address end as from_address
            from pair p
            where not p.was or p.differs
          ) x)
  into delta, taken, v_blocks, needed, needed_by, changes;

  changed := json_array_length(changes) > 0;
  select coalesce(json_agg(json_build_object('address', d.address, 'depends_on', d.depends_on) order by d.address, d.depends_on), '[]')
  into dependents
  from kilolock._dependents(p_state, v_blocks, v_ids) d;
end;
$$;

comment on function kilolock._plan_resource_rollback(kilolock.states, kilolock.version_documents, text) is
  'What it takes to bring some resources back to what they were at a version.';
revoke all on function kilolock._plan_resource_rollback(kilolock.states, kilolock.version_documents, text) from public;
