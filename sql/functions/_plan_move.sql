-- What it takes to give a resource, a block or a module another address.
--
-- A dependency names a block without keys, so where only some instances of a block move, whoever depends on it depends on
-- the old name and the new one. Inside a module instance a dependency means that instance's own resources.
--
-- delta      for _write_delta
-- changes    [{"change", "address", "deposed", "from_address"}]
-- followers  [address]: what depends on it
--
-- Raises  as move_resource
create or replace function kilolock._plan_move(
  p_state kilolock.states, p_head kilolock.version_documents, p_from text, p_to text,
  out delta jsonb, out changes json, out followers json
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  set jit = off
as $$
declare
  c_address constant text := 'Write it as terraform state list does: module.app["a"].aws_vpc.main[0], keys in double quotes.';
  v_from    record;
  v_to      record;
  v_moves   jsonb;
  v_problem text;
  v_taken   text;
begin
  select a.* into v_from from kilolock._read_address(p_from) a;
  select a.* into v_to from kilolock._read_address(p_to) a;
  v_problem := case
    when v_from.address = v_to.address then 'it is the same address'
    when v_from.type is null and v_to.type is not null then 'a module cannot become a resource'
    when v_from.type is not null and v_to.type is null then 'a resource cannot become a module'
    when v_from.mode <> v_to.mode then format('a %s cannot become a %s',
      case v_from.mode when 'data' then 'data source' else 'managed resource' end,
      case v_to.mode when 'data' then 'data source' else 'managed resource' end)
    when v_from.type <> v_to.type then format('a resource of type "%s" cannot become one of type "%s"', v_from.type, v_to.type)
  end;
  if v_problem is not null then
    raise exception 'cannot move "%" to "%": %', p_from, p_to, v_problem using errcode = 'KLB21', hint = c_address;
  end if;

  -- What moves, and where to.
  with moved as materialized (
    select r.id, r.block_id, r.module_path, r.mode, r.type, r.name, r.index_key, r.deposed_key, r.address, r.provider,
           r.address = v_from.address as is_instance
    from kilolock.resources r
    where r.state_version_id = p_state.current_version_id
      and kilolock._matches_address(v_from.address, r.address, r.module_path, r.mode, r.type, r.name)
  ),
  placed as (
    select m.*,
           case when v_from.type is null then v_to.module_path || substr(m.module_path, length(v_from.address) + 1)
             else v_to.module_path end as new_module,
           coalesce(v_to.name, m.name) as new_name,
           case when m.is_instance then v_to.index_key else m.index_key end as new_key
    from moved m
  )
  select jsonb_agg(jsonb_build_object('id', p.id, 'block_id', p.block_id, 'module', p.module_path, 'mode', p.mode, 'type', p.type,
           'name', p.name, 'index_key', p.index_key, 'deposed', coalesce(p.deposed_key, ''), 'address', p.address,
           'provider', p.provider, 'new_module', p.new_module, 'new_name', p.new_name, 'new_key', p.new_key,
           'new_address', kilolock._write_address(p.new_module, p.mode, p.type, p.new_name, p.new_key))),
         case
           when v_from.type is not null and v_to.index_key is not null and bool_or(not p.is_instance)
             then 'it has several instances, which cannot all have one key'
           when v_from.type is null and right(v_from.address, 1) <> ']' and right(v_to.address, 1) = ']'
               and bool_or(starts_with(p.module_path, v_from.address || '['))
             then 'it has several instances, which cannot all have one key'
         end
  into v_moves, v_problem
  from placed p;
  if v_moves is null then
    raise exception 'state "%" has no resource "%"', p_state.name, p_from
      using errcode = 'KLN04', hint = 'Addresses are written as terraform state list prints them, keys in double quotes.';
  elsif v_problem is not null then
    raise exception 'cannot move "%" to "%": %', p_from, p_to, v_problem using errcode = 'KLB21', hint = c_address;
  end if;

  with move as (
    select m.* from jsonb_to_recordset(v_moves) m(id bigint, mode text, type text, provider text, new_module text, new_name text, new_address text)
  ),
  other as materialized (
    select r.address, r.module_path, r.mode, r.type, r.name, r.provider
    from kilolock.resources r
    where r.state_version_id = p_state.current_version_id and r.id not in (select m.id from move m)
  )
  select min(o.address) filter (where o.address = m.new_address),
         min(format('%s has another provider, %s', kilolock._write_address(m.new_module, m.mode, m.type, m.new_name, null), o.provider))
           filter (where o.provider <> m.provider)
  into v_taken, v_problem
  from move m
  join other o on o.module_path = m.new_module and o.mode = m.mode and o.type = m.type and o.name = m.new_name;
  if v_taken is not null then
    raise exception 'cannot move "%" to "%": state "%" has "%" already', p_from, p_to, p_state.name, v_taken
      using errcode = 'KLC22', hint = 'Move or remove that one first: kl state mv, kl state rm.';
  elsif v_problem is not null then
    raise exception 'cannot move "%" to "%": %', p_from, p_to, v_problem
      using errcode = 'KLC22', hint = 'All instances of a resource have one provider; change it with terraform state replace-provider first.';
  end if;

  with move as materialized (
    select m.*, concat_ws('.', nullif(kilolock._config_address(m.new_module), ''), case when m.mode = 'data' then 'data' end, m.type, m.new_name) as new_config
    from jsonb_to_recordset(v_moves) m(id bigint, block_id uuid, module text, mode text, type text, name text, index_key jsonb,
      deposed text, address text, new_module text, new_name text, new_key jsonb, new_address text)
  ),
  -- Each live block that a moved one shares its name in the configuration with, and what it is called afterwards.
  target as materialized (
    select b.config_id, b.config_address, b.module_path, t.new_config
    from (select distinct k.config_id from move m join kilolock.resource_blocks k on k.id = m.block_id) c
    join kilolock.resource_blocks b on b.config_id = c.config_id
    cross join lateral (
      select distinct m.new_config from move m where m.block_id = b.id
      union
      select b.config_address
      where exists (
        select from kilolock.resources r
        where r.block_id = b.id and r.state_version_id = p_state.current_version_id and r.id not in (select m.id from move m))
    ) t
  ),
  dependent as materialized (
    select r.id, r.module_path, r.mode, r.type, r.name, r.index_key, coalesce(r.deposed_key, '') as deposed, r.address, r.dependency_set_id
    from kilolock.resources r
    where r.state_version_id = p_state.current_version_id and r.dependency_set_id in (
      select x.dependency_set_id
      from kilolock.dependency_set_members x
      where x.config_id in (select t.config_id from target t))
  ),
  -- Alike for all that have the same list and stand in the same module instance.
  renaming as materialized (
    select n.dependency_set_id, n.module_path, jsonb_object_agg(n.config_address, n.names) as names
    from (
      select d.dependency_set_id, d.module_path, t.config_address,
             jsonb_agg(distinct t.new_config order by t.new_config) as names
      from (select distinct d.dependency_set_id, d.module_path from dependent d) d
      join kilolock.dependency_set_members x on x.dependency_set_id = d.dependency_set_id
      join target t on t.config_id = x.config_id
      where strpos(d.module_path, '[') = 0 or strpos(t.module_path, '[') = 0
        or kilolock.same_module_instance(d.module_path, t.module_path)
      group by d.dependency_set_id, d.module_path, t.config_address
      having jsonb_agg(distinct t.new_config) <> jsonb_build_array(t.config_address)
    ) n
    group by n.dependency_set_id, n.module_path
  ),
  edited as materialized (
    select r.id, r.module_path as module, r.mode, r.type, r.name, r.index_key, coalesce(r.deposed_key, '') as deposed, r.address,
           m.id is not null as is_moved, coalesce(m.new_module, r.module_path) as new_module, coalesce(m.new_name, r.name) as new_name,
           case when m.id is not null then m.new_key else r.index_key end as new_key,
           coalesce(m.new_address, r.address) as new_address, coalesce(n.names, '{}') as names
    from kilolock.resources r
    left join move m on m.id = r.id
    left join renaming n on n.dependency_set_id = r.dependency_set_id and n.module_path = r.module_path
    where r.state_version_id = p_state.current_version_id and (m.id is not null or n.names is not null)
  ),
  content as materialized (
    select d.*
    from (select jsonb_agg(distinct jsonb_build_object('module', e.module, 'mode', e.mode, 'type', e.type, 'name', e.name)) as blocks
          from edited e) b
    cross join kilolock._document_instances(kilolock._read_document(p_head), b.blocks) d
  )
  select jsonb_build_object(
           'put', jsonb_agg(jsonb_build_object('module', e.new_module, 'mode', e.mode, 'type', e.type, 'name', e.new_name,
             'provider', c.provider, 'instance', kilolock._edit_instance(c.content,
               case when e.new_key is distinct from e.index_key then coalesce(e.new_key, 'null') end, e.names))),
           'remove', coalesce(jsonb_agg(jsonb_build_object('address', e.address, 'deposed', nullif(e.deposed, '')))
             filter (where e.is_moved and not exists (
               select from edited o where o.new_address = e.address and o.deposed = e.deposed)), '[]'),
           'moved', jsonb_agg(jsonb_build_object('from', e.address, 'to', e.new_address, 'deposed', nullif(e.deposed, '')))
             filter (where e.is_moved)),
         json_agg(json_build_object('change', 'move', 'address', e.new_address, 'deposed', nullif(e.deposed, ''), 'from_address', e.address)
           order by e.new_address, e.deposed) filter (where e.is_moved),
         coalesce(json_agg(e.new_address order by e.new_address, e.deposed) filter (where not e.is_moved), '[]')
  into delta, changes, followers
  from edited e
  join content c on c.module = e.module and c.mode = e.mode and c.type = e.type and c.name = e.name
    and c.index_key is not distinct from e.index_key and c.deposed = e.deposed;
end;
$$;

comment on function kilolock._plan_move(kilolock.states, kilolock.version_documents, text, text) is
  'What it takes to give a resource, a block or a module another address.';
revoke all on function kilolock._plan_move(kilolock.states, kilolock.version_documents, text, text) from public;
