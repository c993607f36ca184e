-- The resources of a document with some instances put or removed, where only the chunks that hold their blocks are looked into.
--
-- Gives what _edit_blocks gives, byte for byte, where instances stand in Terraform's order. In Terraform's layout
-- resources are a row of entries: an opening and an instance. An instance that is the first of its block has the block's first
-- lines for an opening, after the end of the block before; any other has a comma. So it takes no more than to change the row,
-- and to write the openings by the same rule.
--
-- p_parts  the texts of the document's chunks. Those from p_first to p_last have its resources and nothing else, as if one
--          more block ended before them and the last did not end. They are known to be in Terraform's layout
-- p_put, p_remove  as _edit_blocks takes them
-- places, texts    which parts change, and their texts then
--
-- Raises  KLX03  what should be there is not found, or is not written as Terraform writes it
create or replace function kilolock._edit_resources(
  p_parts text[], p_first integer, p_last integer, p_put jsonb, p_remove jsonb, out places integer[], out texts text[]
)
  language plpgsql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
declare
  c_start constant text := e'\n        {\n';
  c_end   constant text := e'\n        }';
  c_close constant text := e'\n      ]\n    }';
  c_key   constant text := '          "index_key": ';
  v_is_sure boolean;
begin
  with edit as materialized (
    select e.n, e.value ? 'row_id' as is_there, e.value ->> 'instance' as instance, b.key as block_key,
           b.key || e',\n      "provider": ' || kilolock._write_string(e.value ->> 'provider') || e',\n      "instances": [' as opening,
           k.index_key, coalesce(e.value ->> 'deposed', '') as deposed,
           kilolock._instance_order(k.index_key, e.value ->> 'deposed') as place,
           coalesce(c_key || case jsonb_typeof(k.index_key)
             when 'string' then kilolock._write_string(k.index_key #>> '{}') else k.index_key::text end, '') as key_line
    from jsonb_array_elements(p_put || p_remove) with ordinality e(value, n)
    cross join lateral (
      select concat(c_close, e',\n    {\n', '      "module": ' || kilolock._write_string(nullif(e.value ->> 'module', '')) || e',\n',
               e'      "mode": ', kilolock._write_string(e.value ->> 'mode'), e',\n      "type": ', kilolock._write_string(e.value ->> 'type'),
               e',\n      "name": ', kilolock._write_string(e.value ->> 'name')) as key
    ) b
    cross join lateral (select nullif(e.value -> 'index_key', 'null') as index_key) k
  ),
  -- All blocks: the part in which each begins, and the one in which it ends.
  block as materialized (
    select row_number() over (order by x.n, x.m) as block_n, x.n, lead(x.n, 1, p_last::bigint) over (order by x.n, x.m) as until, x.key
    from (
      select p.n, b.m, c_close || split_part(b.text, e',\n      "provider": ', 1) as key
      from unnest(p_parts) with ordinality p(data, n)
      cross join lateral string_to_table(c_end || p.data, c_end || c_close) with ordinality b(text, m)
      where p.n between p_first and p_last and b.m > 1
      offset 0
    ) x
  ),
  -- The parts, with how many blocks begin before them, and what they begin with: an instance, or their first block.
  part as materialized (
    select p.n, coalesce(max(b.last) over (order by p.n rows between unbounded preceding and 1 preceding), 0) as blocks_before,
           b.last, b.first,
           case when starts_with(p.data, ',' || c_start) then kilolock._entry_order(right(split_part(p.data, c_end, 1), -1)) end as place
    from unnest(p_parts) with ordinality p(data, n)
    left join (select k.n, min(k.block_n) as first, max(k.block_n) as last from block k group by k.n) b on b.n = p.n
    where p.n between p_first and p_last
  ),
  -- In the middle of a block: into the last part that begins with nothing which Terraform's order has behind the instance.
  touched as materialized (
    select e.n as edit_n, e.is_there, e.instance, e.opening, e.key_line, e.index_key, e.deposed, e.place, b.block_n, b.n as block_part,
           coalesce((select max(p.n) from part p where p.n > b.n and p.n <= b.until and p.place <= e.place), b.n) as n
    from edit e
    join block b on b.key = e.block_key
  ),
  -- A new block goes before the first that Terraform's order has behind it.
  new_block as materialized (
    select -row_number() over (order by x.place) as block_n, x.key, x.opening, b.n, b.block_n as next_block_n
    from (
      select e.block_key as key, kilolock._block_place(e.block_key) as place, min(e.opening) as opening
      from edit e
      where not exists (select from touched t where t.edit_n = e.n)
      group by e.block_key
    ) x
    left join lateral (
      select p.first, p.last
      from part p
      join block k on k.block_n = p.first
      where kilolock._block_place(k.key) <= x.place or p.n = p_first
      order by p.n desc
      limit 1
    ) p on true
    left join lateral (
      select coalesce(min(k.block_n), p.last + 1) as block_n
      from block k
      where k.block_n between p.first and p.last and kilolock._block_place(k.key) > x.place
    ) o on true
    left join block b on b.block_n = o.block_n
  ),
  -- The parts to look into. Where an instance goes, the next one may have to begin its block.
  reach as materialized (
    select p.n, p.blocks_before
    from part p
    where p.n in (
      select t.n from touched t
      union all
      select t.n + 1 from touched t where t.instance is null
      union all
      select coalesce(b.n, p_last) from new_block b
      union all
      select p_last - 1 from new_block b where b.n is null)
  ),
  entry as materialized (
    select e.n, e.m, e.opening, e.instance,
           case when starts_with(split_part(e.instance, e'\n', 3), c_key) then rtrim(split_part(e.instance, e'\n', 3), ',') else '' end as key_line,
           e.blocks_before + count(e.opening) over (partition by e.n order by e.m) as block_n
    from (
      select r.n, r.blocks_before, e.m, case when not c.is_next then left(e.text, strpos(e.text, c_start) - 1) end as opening,
             right(e.text, case when c.is_next then -1 else 1 - strpos(e.text, c_start) end) as instance
      from reach r
      cross join lateral string_to_table(left(p_parts[r.n], -length(c_end)), c_end) with ordinality e(text, m)
      cross join lateral (select starts_with(e.text, ',' || c_start) as is_next offset 0) c
      offset 0
    ) e
  ),
  found as materialized (
    select x.n, x.m, x.instance
    from (
      select e.n, e.m, t.instance, t.index_key, t.deposed, e.instance as old_instance
      from touched t
      join entry e on e.n = t.n and e.block_n = t.block_n and e.key_line = t.key_line
      where t.is_there
      offset 0
    ) x
    cross join lateral kilolock._split_instances('[' || x.old_instance || c_end || e'\n      ]') i
    where i.is_laid_out and i.index_key is not distinct from x.index_key and i.deposed = x.deposed
  ),
  entry_place as materialized (
    select e.n, e.block_n, e.m, kilolock._entry_order(e.instance) as place
    from entry e
    where (e.n, e.block_n) in (select t.n, t.block_n from touched t where not t.is_there)
  ),
  arrival as materialized (
    -- A new instance goes before the first of its block that Terraform's order has behind it.
    select t.n, coalesce(min(e.m) filter (where e.place > t.place), max(e.m)) as m,
           case when bool_or(e.place > t.place) then 1 else 3 end as turn, t.block_n, t.place, t.instance
    from touched t
    join entry_place e on e.n = t.n and e.block_n = t.block_n
    where not t.is_there
    group by t.edit_n, t.n, t.block_n, t.place, t.instance
    union all
    select e.n, e.m, case when e.block_n = b.next_block_n then 0 else 4 end, b.block_n, d.place, d.instance
    from new_block b
    join edit d on d.block_key = b.key and not d.is_there
    cross join lateral (
      select x.n, x.m, x.block_n
      from entry x
      where b.n is null or x.block_n = b.next_block_n and x.opening is not null
      order by x.n desc, x.m desc
      limit 1
    ) e
  ),
  -- The row of entries as it is to be. At the beginning of each run of parts stands what is before it.
  kept as (
    select r.n, 0 as m, 0 as turn, r.blocks_before as block_n, null::bytea as place, null as instance
    from reach r
    where not exists (select from reach b where b.n = r.n - 1)
    union all
    select e.n, e.m, 2, e.block_n, null, case when f.n is null then e.instance else e'\n        ' || left(f.instance, -length(c_end)) end
    from entry e
    left join found f on f.n = e.n and f.m = e.m
    where f.n is null or f.instance is not null
    union all
    select a.n, a.m, a.turn, a.block_n, a.place, e'\n        ' || left(a.instance, -length(c_end))
    from arrival a
  ),
  opening as (
    select e.block_n, e.opening from entry e where e.opening is not null
    union all
    select b.block_n, b.opening from new_block b
  ),
  written as (
    select k.n, string_agg(case when k.is_next then ',' else o.opening end || k.instance || c_end, ''
             order by k.m, k.turn, k.block_n desc, k.place) as data
    from (
      select x.*, x.block_n = lag(x.block_n) over (order by x.n, x.m, x.turn, x.block_n desc, x.place) as is_next
      from kept x
    ) k
    left join opening o on o.block_n = k.block_n
    group by k.n
  )
  -- Every block begins as it should, those of the edits with the same provider, and every edit has found its place.
  select array_agg(r.n::integer order by r.n), array_agg(coalesce(w.data, '') order by r.n),
         not exists (select from block b where not starts_with(b.key, c_close || e',\n    {\n'))
         and not exists (
           select from (select distinct t.block_part, t.opening from touched t) t
           where strpos(c_end || p_parts[t.block_part], c_end || t.opening) = 0)
         and not exists (select from new_block b join edit d on d.block_key = b.key where d.opening is distinct from b.opening)
         and (select count(*) from edit d) = (select count(*) from found f) + (select count(*) from arrival a)
         and (select count(*) from edit d where d.is_there) = (select count(*) from found f)
  into places, texts, v_is_sure
  from reach r
  left join written w on w.n = r.n;

  if v_is_sure is not true then
    raise exception 'another layout' using errcode = 'KLX03';
  end if;
end;
$$;

comment on function kilolock._edit_resources(text[], integer, integer, jsonb, jsonb) is
  'The resources of a document with some instances put or removed, where only the chunks that hold their blocks are looked into.';
revoke all on function kilolock._edit_resources(text[], integer, integer, jsonb, jsonb) from public;
