-- Make the rows of a state match its new document: resources, their past, blocks, dependency sets and outputs.
--
-- Instances are compared by the hash of their text first. Only those whose text is new are parsed, and only those
-- whose meaning changed are written. An address that went and one that came with the same managed object, told by its
-- type and id attribute, are one resource that moved.
--
-- p_moves names what moved where it is known, [{"from", "to": addresses, "deposed"}]: those keep their ids whatever they hold.
--
-- p_scope  where only some instances changed: the live rows that they have now; p_document then holds those instances only, and
--          outputs where these changed. All other rows stay as they are
--
-- p_bytes is the document where p_document is a skeleton with references into it, from p_origin on (_store_document); p_clean says that
-- something in it cannot be decoded. p_at is when it was written. managed_change is by how much the resources that
-- quotas count became more. is_laid_out says that the document has resources, written and sorted as Terraform does it, but for
-- what is in an instance: with references in it that can be told, since one that could be replaced stands where it should.
--
-- Raises  KLB01  a resource or instance that Terraform would refuse
--         KLX01  a reference that _store_document made stands in an odd place; _write_document starts over without any
drop function if exists kilolock._write_rows(bigint, bigint, bigint, numeric, text, json, text, boolean);
drop function if exists kilolock._write_rows(bigint, bigint, bigint, numeric, text, json, text, boolean, timestamptz);
drop function if exists kilolock._write_rows(bigint, bigint, bigint, numeric, text, json, bytea, boolean, timestamptz);
drop function if exists kilolock._write_rows(bigint, bigint, bigint, numeric, text, json, bytea, boolean, timestamptz, jsonb);
drop function if exists kilolock._write_rows(bigint, bigint, bigint, numeric, text, json, bytea, integer, boolean, timestamptz, jsonb);
create or replace function kilolock._write_rows(
  p_state_id bigint, p_version_id bigint, p_version bigint, p_serial numeric, p_salt text,
  p_document json, p_bytes bytea, p_origin integer, p_clean boolean, p_at timestamptz, p_moves jsonb default '[]',
  p_scope bigint[] default null,
  out created integer, out updated integer, out moved integer, out deleted integer, out resource_count integer,
  out managed_change integer, out is_laid_out boolean
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_tag        constant text := '"kl' || substr(p_salt, 1, 8);
  v_has_past   boolean := exists (select from kilolock.past_resources x where x.state_id = p_state_id);
  v_has_rows   boolean := exists (select from kilolock.resources r where r.state_version_id = p_version_id);
  v_problem    text;
  v_unresolved boolean;
  v_twice      text;
  v_before     integer;
begin
  -- Each branch has an index of its own, and only one of them is run.
  with live as not materialized (
    select r.*
    from kilolock.resources r
    where r.state_version_id = p_version_id and p_scope is null
    union all
    select r.*
    from kilolock.resources r
    where r.id = any (p_scope) and r.state_version_id = p_version_id
  ),
  block as materialized (
    select b.n, md5(p_salt || concat_ws(chr(31), t.module, t.mode, t.type, t.name, t.provider))::uuid as id,
           coalesce(t.module, '') as module_path, t.mode, t.type, t.name, coalesce(t.provider, '') as provider,
           t.instances, c.config_address,
           concat(nullif(t.module, '') || '.', case when t.mode = 'data' then 'data.' end, t.type, '.', t.name) as address_prefix, md5(p_salt || c.config_address)::uuid as config_id,
           case
             when json_typeof(b.value) <> 'object' then format('resource %s is no object', b.n)
             when coalesce(t.mode, '') not in ('managed', 'data') then format('resource %s has mode "%s"', b.n, t.mode)
             when coalesce(t.type, '') = '' or coalesce(t.name, '') = '' then format('resource %s has no type or no name', b.n)
             when coalesce(json_typeof(t.instances), 'null') not in ('array', 'null')
               then format('resource %s.%s has instances that are no array', t.type, t.name)
           end as problem,
           -- Written as Terraform does it: one line a member, and the references of its instances between two line breaks.
           b.value::text = kilolock._escape_as_go(concat('{', e'\n      "module": ' || to_json(nullif(t.module, '')) || ',',
             e'\n      "mode": "', t.mode, e'",\n      "type": ', to_json(t.type), e',\n      "name": ', to_json(t.name),
             e',\n      "provider": ', to_json(t.provider))) || concat(e',\n      "instances": ', t.instances, e'\n    }')
           and starts_with(t.instances::text, e'[\n"') and right(t.instances::text, 8) = e'\n      ]'
           and strpos(right(t.instances::text, -2), e'\n') = length(t.instances::text) - 9 as is_laid_out
    from json_to_record(p_document) d(resources json)
    cross join json_array_elements(case when json_typeof(d.resources) = 'array' then d.resources end)
      with ordinality b(value, n)
    cross join lateral json_to_record(case when json_typeof(b.value) = 'object' then b.value else '{}' end)
      t(module text, mode text, type text, name text, provider text, instances json)
    cross join lateral (
      select concat(
        case when strpos(t.module, '[') > 0
          then regexp_replace(t.module, '\["(?:[^"\\]|\\.)*"\]|\[[0-9]+\]', '', 'g') else nullif(t.module, '') end
          || '.', case when t.mode = 'data' then 'data.' end, t.type, '.', t.name) as config_address
    ) c
  ),
  element as materialized (
    select b.n as block_n, b.id as block_id, e.n, x.is_reference, case when not x.is_reference then e.value end as value,
           case when x.is_reference then decode(substr(e.value::text, 12, 32), 'hex')
             else substr(sha256(convert_to(p_salt || e.value::text, 'UTF8')), 1, 16) end as instance_hash,
           case when x.is_reference then rtrim(substr(e.value::text, 44), '"') end as place
    from block b
    cross join json_array_elements(case when b.problem is null and json_typeof(b.instances) = 'array' then b.instances end)
      with ordinality e(value, n)
    cross join lateral (select p_bytes is not null and starts_with(e.value::text, v_tag) as is_reference) x
  ),
  fresh_element as materialized (
    select e.*, not e.is_reference and p_bytes is not null and strpos(e.value::text, v_tag) > 0 as holds_reference
    from element e
    left join live l on l.block_id = e.block_id and l.instance_hash = e.instance_hash
    where l.id is null
  ),
  fresh as (
    -- Each step is fenced by its offset: what the next one names more than once is to be worked out once.
    select x.block_id, x.module_path, x.mode, x.type, x.name, x.provider, x.address_prefix, x.config_address, x.n, x.place,
           x.instance_hash, kilolock._read_json(x.instance, p_clean) as inst
    from (
      select b.id as block_id, b.module_path, b.mode, b.type, b.name, b.provider, b.address_prefix, b.config_address, e.n,
             e.block_n * 4294967296 + e.n as place, e.instance_hash,
             case
               when e.is_reference then convert_from(
                 substr(p_bytes, p_origin + split_part(e.place, '+', 1)::integer + 1, split_part(e.place, '+', 2)::integer), 'UTF8')
               else e.value::text
             end as instance
      from fresh_element e
      join block b on b.n = e.block_n
      where not e.holds_reference
      offset 0
    ) x
    offset 0
  ),
  parsed as (
    select f.block_id, f.instance_hash, f.place, f.module_path, f.mode, f.type, f.name,
           coalesce(i.provider #>> '{}', f.provider) as provider, i.index_key,
           nullif(i.deposed, '') as deposed_key,
           case when i.status = 'tainted' then 'tainted' else 'ready' end as status,
           coalesce((i.schema_version #>> '{}')::numeric, 0) as schema_version,
           i.paths as sensitive_paths,
           case
             when i.paths = '[]' or i.attributes is null then i.attributes
             when i.is_flat then kilolock._digest(i.attributes, p_salt)
             else kilolock._redact(i.attributes, i.paths, p_salt)
           end as attributes,
           case when i.dependencies is not null then md5(p_salt || i.dependencies::text)::uuid end as dependency_set_id,
           i.dependencies,
           case when i.rest <> '{}' then sha256(convert_to(p_salt || i.rest::text, 'UTF8')) end as rest_digest,
           f.address_prefix || case jsonb_typeof(i.index_key)
             when 'string' then '[' || kilolock._quote_key(i.index_key #>> '{}') || ']'
             when 'number' then '[' || trunc((i.index_key #>> '{}')::numeric) || ']'
             else ''
           end as address,
           case
             when i.problem is not null then format('instance %s of %s has %s', f.n, f.config_address, i.problem)
           end as problem
    from fresh f
    cross join lateral kilolock._read_instance(f.inst) i
    offset 0
  ),
  gone as materialized (
    select r.*
    from live r
    left join element e on e.block_id = r.block_id and e.instance_hash = r.instance_hash
    where e.n is null
  ),
  known_move as materialized (
    select m."from" as from_address, m."to" as to_address, coalesce(m.deposed, '') as deposed_key
    from jsonb_to_recordset(p_moves) m("from" text, "to" text, deposed text)
  ),
  pair as materialized (
    select p.*, g.id, g.address <> p.address as is_moved,
           g.id is not null and g.address = p.address and g.schema_version = p.schema_version and g.provider = p.provider and g.status = p.status
             and g.attributes is not distinct from p.attributes and g.index_key is not distinct from p.index_key
             and g.dependency_set_id is not distinct from p.dependency_set_id
             and g.sensitive_paths = p.sensitive_paths and g.rest_digest is not distinct from p.rest_digest as same
    from parsed p
    left join known_move t on t.to_address = p.address and t.deposed_key = coalesce(p.deposed_key, '')
    left join known_move f on f.from_address = p.address and f.deposed_key = coalesce(p.deposed_key, '')
    left join gone g on g.address = case when t.to_address is not null then t.from_address when f.from_address is null then p.address end
      and coalesce(g.deposed_key, '') = coalesce(p.deposed_key, '') and g.mode = p.mode
  ),
  left_over as materialized (
    select g.id, g.type, case when g.mode = 'managed' and g.deposed_key is null then g.attributes ->> 'id' end as object_id
    from gone g
    left join pair p on p.id = g.id
    where p.id is null
  ),
  arrived as materialized (
    select p.address, p.type, p.attributes ->> 'id' as object_id,
           count(*) over (partition by p.type, p.attributes ->> 'id') as alike
    from pair p
    where p.id is null and p.mode = 'managed' and p.deposed_key is null and exists (select from left_over)
  ),
  move as materialized (
    select a.address, l.id
    from arrived a
    join (
      select o.id, o.type, o.object_id, count(*) over (partition by o.type, o.object_id) as alike
      from left_over o
      where o.object_id is not null
    ) l on l.type = a.type and l.object_id = a.object_id
    where a.alike = 1 and l.alike = 1
  ),
  row_to_write as not materialized (
    select p.*, case when p.is_moved then p.id else m.id end as moved_id, coalesce(p.id, m.id) as live_id
    from pair p
    left join move m on m.address = p.address and p.id is null and p.deposed_key is null
    where not p.same and p.problem is null
  ),
  -- Terraform refuses an address that stands in a state twice. Here it does so in what is new, or in that and in what stays.
  twice as materialized (
    select coalesce(
      (select min(d.address)
       from (select p.address from pair p where p.problem is null group by p.address, p.deposed_key having count(*) > 1) d),
      (select min(w.address)
       from row_to_write w
       where w.live_id is null and v_has_rows
         and (select count(*) from kilolock.resources r
              where r.address = w.address and r.state_version_id = p_version_id and r.deposed_key is not distinct from w.deposed_key
                and r.id not in (select g.id from gone g)) > 0)) as address
  ),
  used_set as materialized (
    select w.dependency_set_id, w.block_id, min(w.place) as place
    from row_to_write w
    where w.dependency_set_id is not null
    group by w.dependency_set_id, w.block_id
  ),
  new_block as (
    insert into kilolock.resource_blocks (id, state_id, module_path, mode, type, name, config_address, config_id)
    select distinct on (b.id) b.id, p_state_id, b.module_path, b.mode, b.type, b.name, b.config_address, b.config_id
    from block b
    left join kilolock.resource_blocks k on k.id = b.id and k.state_id = p_state_id
    where k.id is null and b.problem is null
  ),
  new_set as (
    insert into kilolock.dependency_sets (id, state_id, addresses)
    select p.dependency_set_id, p_state_id,
           array(select distinct a.value #>> '{}' from jsonb_array_elements(p.dependencies) a order by 1)
    from (select u.dependency_set_id, min(u.place) as place from used_set u group by u.dependency_set_id) w
    join pair p on p.place = w.place
    left join kilolock.dependency_sets k on k.id = w.dependency_set_id and k.state_id = p_state_id
    where k.id is null
    returning id, addresses
  ),
  new_member as (
    insert into kilolock.dependency_set_members (dependency_set_id, config_id)
    select distinct s.id, md5(p_salt || a.address)::uuid
    from new_set s
    cross join unnest(s.addresses) a(address)
    where a.address is not null
  ),
  new_block_set as (
    insert into kilolock.block_dependency_sets (dependency_set_id, block_id)
    select u.dependency_set_id, u.block_id
    from used_set u
    on conflict do nothing
  ),
  past as (
    insert into kilolock.past_resources (resource_id, state_id, from_version, until_version, block_id, dependency_set_id,
      began_as, ended_as, created_serial, changed_serial, changed_at, schema_version, mode, type, module_path, address,
      name, index_key, deposed_key, status, provider, sensitive_paths, attributes)
    select g.id, g.state_id, g.since_version, p_version, g.block_id, g.dependency_set_id, g.last_change,
           case when p.is_moved or m.id is not null then 'move' when p.id is not null then 'update' else 'delete' end,
           g.created_serial, g.changed_serial, g.changed_at, g.schema_version, g.mode, g.type, g.module_path, g.address,
           g.name, g.index_key, g.deposed_key, g.status, g.provider, g.sensitive_paths, g.attributes
    from gone g
    left join pair p on p.id = g.id
    left join move m on m.id = g.id
    where p.same is not true and (select t.address from twice t) is null
    returning ended_as, mode = 'managed' and deposed_key is null as counts
  ),
  rewritten as (
    update kilolock.resources r
    set since_version = p_version, changed_at = p_at, changed_serial = p_serial, block_id = w.block_id,
        dependency_set_id = w.dependency_set_id, last_change = case when w.moved_id is null then 'update' else 'move' end,
        schema_version = w.schema_version, module_path = w.module_path, address = w.address, type = w.type, name = w.name,
        index_key = w.index_key, status = w.status, provider = w.provider, sensitive_paths = w.sensitive_paths,
        instance_hash = w.instance_hash, rest_digest = w.rest_digest, attributes = w.attributes
    from row_to_write w
    where r.id = w.live_id and r.state_version_id = p_version_id
  ),
  removed as (
    delete from kilolock.resources r
    using left_over l
    left join move m on m.id = l.id
    where r.id = l.id and r.state_version_id = p_version_id and m.id is null
  ),
  added as (
    insert into kilolock.resources (id, state_id, state_version_id, since_version, block_id, dependency_set_id, last_change,
      created_serial, changed_serial, changed_at, schema_version, mode, type, module_path, address, name, index_key, deposed_key,
      status, provider, sensitive_paths, instance_hash, rest_digest, attributes)
    select coalesce(case when v_has_past then kilolock._past_resource_id(p_state_id, w.address, w.deposed_key) end,
             nextval('kilolock.resources_id_seq')),
           p_state_id, p_version_id, p_version, w.block_id, w.dependency_set_id, 'create',
           p_serial, p_serial, p_at, w.schema_version, w.mode, w.type, w.module_path, w.address, w.name, w.index_key, w.deposed_key,
           w.status, w.provider, w.sensitive_paths, w.instance_hash, w.rest_digest, w.attributes
    from row_to_write w
    where w.live_id is null and (select t.address from twice t) is null
    returning mode = 'managed' and deposed_key is null as counts
  )
  select (select count(*) from added),
         (select count(*) from past x where x.ended_as = 'update'),
         (select count(*) from past x where x.ended_as = 'move'),
         (select count(*) from past x where x.ended_as = 'delete'),
         (select count(*) from element),
         (select count(*) from added a where a.counts) - (select count(*) from past x where x.counts and x.ended_as = 'delete'),
         (select s.resource_count from kilolock.states s where s.id = p_state_id),
         coalesce((select min(b.problem) from block b), (select min(p.problem) from pair p)),
         exists (select from fresh_element e where e.holds_reference), (select t.address from twice t),
         (select bool_and(x.is_laid_out and x.place > coalesce(x.before, '{}')) from (
           select b.is_laid_out, p.place, lag(p.place) over (order by b.n) as before
           from block b
           cross join lateral (select array[b.module_path, b.mode, b.type, b.name] collate "C" as place) p) x) is true
         and not exists (select from element e where not e.is_reference)
  into created, updated, moved, deleted, resource_count, managed_change, v_before, v_problem, v_unresolved, v_twice, is_laid_out;

  if v_unresolved or v_problem is not null and p_bytes is not null and p_scope is null then
    -- The problem may be of the reference's making: the full text tells.
    raise exception 'a reference stands in an odd place' using errcode = 'KLX01';
  end if;
  if v_problem is not null then
    raise exception 'the body is not a valid state: %', v_problem
      using errcode = 'KLB01', hint = 'Nothing was stored. Send the state file as Terraform wrote it.';
  end if;
  if p_scope is not null then
    resource_count := v_before + created - deleted;
  end if;
  -- The count tells what stays twice, in the same text.
  if v_twice is not null or resource_count <> v_before + created - deleted then
    raise exception 'the body has % more than once', coalesce(v_twice, 'an instance')
      using errcode = 'KLB01', hint = 'Nothing was stored. Each address, and each deposed key of it, may stand in a state once.';
  end if;
  if p_scope is not null and p_document -> 'outputs' is null then
    return;
  end if;
  perform kilolock._write_outputs(p_state_id, p_version, p_serial, p_salt, p_document, p_bytes is not null);
end;
$$;

comment on function kilolock._write_rows(bigint, bigint, bigint, numeric, text, json, bytea, integer, boolean, timestamptz, jsonb, bigint[]) is
  'Make the rows of a state match a parsed document.';
revoke all on function kilolock._write_rows(bigint, bigint, bigint, numeric, text, json, bytea, integer, boolean, timestamptz, jsonb, bigint[]) from public;
