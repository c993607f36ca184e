-- The resources of a document with some instances put or removed, where only the chunks that hold their blocks are looked into.
--
-- Gives what _edit_blocks gives, byte for byte. In Terraform's layout resources are a row of entries: an opening and an
-- instance. An instance that is the first of its block has the block's first lines for an opening, after the end of the block
-- before; any other has a comma. So it takes no more than to change the row, and to write the openings by the same rule.
--
-- p_parts  the texts of the document's chunks. Those from p_first to p_last have resources: from what follows the opening
--          bracket to the end of the last instance. They are known to be in Terraform's layout
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
  set work_mem = '256MB'
  set enable_mergejoin = off
  set jit = off
as $$
declare
  c_start constant text := e'\n        {\n';
  c_end   constant text := e'\n        }';
  c_close constant text := e'\n      ]\n    }';
  c_key   constant text := '          "index_key": ';
  v_is_sure boolean;
  v_at      integer;
begin
  with part as materialized (
    -- As if there were the end of a block before the first one, too.
    select p.n, case when p.n = p_first then c_close || ',' || p.data else p.data end as data
    from unnest(p_parts) with ordinality p(data, n)
    where p.n between p_first and p_last
  ),
  edit as materialized (
    select e.n, e.value ? 'row_id' as is_there, e.value ->> 'instance' as instance,
           array[b.module, e.value ->> 'mode', e.value ->> 'type', e.value ->> 'name'] collate "C" as block_place, b.key as block_key,
           b.key || e',\n      "provider": ' || kilolock._write_string(e.value ->> 'provider') || e',\n      "instances": [' as opening,
           k.index_key, coalesce(e.value ->> 'deposed', '') as deposed,
           kilolock._instance_order(k.index_key, e.value ->> 'deposed') as place,
           coalesce(c_key || case jsonb_typeof(k.index_key)
             when 'string' then kilolock._write_string(k.index_key #>> '{}') else k.index_key::text end, '') as key_line
    from jsonb_array_elements(p_put || p_remove) with ordinality e(value, n)
    cross join lateral (
      select coalesce(e.value ->> 'module', '') as module,
             concat(c_close, e',\n    {\n', '      "module": ' || kilolock._write_string(nullif(e.value ->> 'module', '')) || e',\n',
               e'      "mode": ', kilolock._write_string(e.value ->> 'mode'), e',\n      "type": ', kilolock._write_string(e.value ->> 'type'),
               e',\n      "name": ', kilolock._write_string(e.value ->> 'name')) as key
    ) b
    cross join lateral (select nullif(e.value -> 'index_key', 'null') as index_key) k
  ),
  -- Every block: in which part it begins, and with which lines.
  block as materialized (
    select row_number() over (order by x.n, x.m) as block_n, x.n, x.opening,
           lead(x.n, 1, p_last::bigint) over (order by x.n, x.m) as until,
           split_part(x.opening, e',\n      "provider": ', 1) as key
    from (
      select p.n, b.m, c_close || left(b.text, strpos(b.text, e'\n      "instances": [') + 20) as opening
      from part p
      cross join lateral string_to_table(c_end || p.data, c_end || c_close) with ordinality b(text, m)
      where b.m > 1
    ) x
  ),
  -- Parts that begin in the middle of a block, and with which of its instances.
  middle as materialized (
    select p.n, kilolock._entry_order(right(split_part(p.data, c_end, 1), -1)) as place
    from part p
    where starts_with(p.data, ',' || c_start)
  ),
  touched as materialized (
    select e.n as edit_n, e.is_there, e.instance, e.opening, e.place, b.block_n,
           coalesce((select max(m.n) from middle m where m.n > b.n and m.n <= b.until and m.place <= e.place), b.n) as n
    from edit e
    join block b on b.key = e.block_key
  ),
  -- A new block goes before the first that Terraform's order has behind it.
  new_block as materialized (
    select -row_number() over (order by b.block_place) as block_n, b.key, b.opening, o.n, o.block_n as next_block_n
    from (
      select e.block_key as key, e.block_place, min(e.opening) as opening
      from edit e
      where e.block_key not in (select b.key from block b)
      group by e.block_key, e.block_place
    ) b
    left join lateral (
      select k.n, k.block_n
      from block k
      cross join lateral json_to_record(('{' || right(k.key, -length(c_close || e',\n    {')) || '}')::json)
        j(module text, mode text, type text, name text)
      where array[coalesce(j.module, ''), j.mode, j.type, j.name] collate "C" > b.block_place
      order by k.block_n
      limit 1
    ) o on true
  ),
  -- The parts to look into. Where an instance goes, the next one may have to begin its block.
  reach as materialized (
    select r.n, (select coalesce(max(b.block_n), 0) from block b where b.n < r.n) as blocks_before
    from (
      select t.n from touched t
      union
      select t.n + 1 from touched t where t.instance is null and t.n < p_last
      union
      select coalesce(b.n, p_last) from new_block b
      union
      select p_last - 1 from new_block b where b.n is null and p_last > p_first
    ) r
  ),
  entry as materialized (
    select e.n, e.m, e.is_first, e.blocks_before + count(*) filter (where e.is_first) over (partition by e.n order by e.m) as block_n,
           e.instance
    from (
      select r.n, r.blocks_before, e.m, not c.is_next as is_first,
             right(e.text, case when c.is_next then -1 else 1 - strpos(e.text, c_start) end) as instance
      from reach r
      cross join lateral string_to_table((select left(p.data, -length(c_end)) from part p where p.n = r.n), c_end) with ordinality e(text, m)
      cross join lateral (select starts_with(e.text, ',' || c_start) as is_next offset 0) c
      offset 0
    ) e
  ),
  found as materialized (
    select d.n as edit_n, e.n, e.m, d.instance
    from edit d
    join touched t on t.edit_n = d.n
    join entry e on e.n = t.n and e.block_n = t.block_n
    cross join lateral (select split_part(e.instance, e'\n', 3) as line offset 0) l
    cross join lateral kilolock._split_instances('[' || e.instance || c_end || e'\n      ]') i
    where d.is_there and d.key_line = case when starts_with(l.line, c_key) then rtrim(l.line, ',') else '' end
      and i.is_laid_out and i.index_key is not distinct from d.index_key and i.deposed = d.deposed
  ),
  arrival as materialized (
    -- A new instance goes before the first of its block that Terraform's order has behind it.
    select t.n, coalesce(e.behind, e.last) as m, case when e.behind is null then 3 else 1 end as turn, t.block_n, t.place, t.instance
    from touched t
    cross join lateral (
      select min(x.m) filter (where kilolock._entry_order(x.instance) > t.place) as behind, max(x.m) as last
      from entry x
      where x.n = t.n and x.block_n = t.block_n
    ) e
    where not t.is_there
    union all
    select e.n, e.m, case when e.block_n = b.next_block_n then 0 else 4 end, b.block_n, d.place, d.instance
    from new_block b
    join edit d on d.block_key = b.key and not d.is_there
    cross join lateral (
      select x.n, x.m, x.block_n
      from entry x
      where b.n is null or x.block_n = b.next_block_n and x.is_first
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
    select b.block_n, b.opening from block b
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
  select array_agg(r.n::integer order by r.n), array_agg(coalesce(w.data, '') order by r.n),
         not exists (select from block b where not starts_with(b.opening, c_close || e',\n    {\n'))
         and not exists (select from touched t join block b on b.block_n = t.block_n where t.opening <> b.opening)
         and not exists (select from new_block b join edit d on d.block_key = b.key where d.opening is distinct from b.opening)
         and (select count(*) from edit d) = (select count(*) from found f) + (select count(*) from arrival a)
         and (select count(*) from edit d where d.is_there) = (select count(*) from found f)
  into places, texts, v_is_sure
  from reach r
  left join written w on w.n = r.n;

  if v_is_sure is not true then
    raise exception 'another layout' using errcode = 'KLX03';
  end if;
  -- The end of no block goes again, from whatever is the first now. What follows a part that loses an instance is here too.
  if places[1] = p_first then
    v_at := 1;
    while texts[v_at] = '' loop
      v_at := v_at + 1;
    end loop;
    -- Without any instance the document is cut by another rule.
    if v_at > cardinality(places) then
      raise exception 'another layout' using errcode = 'KLX03';
    end if;
    texts[v_at] := right(texts[v_at], -length(c_close || ','));
  end if;
end;
$$;

comment on function kilolock._edit_resources(text[], integer, integer, jsonb, jsonb) is
  'The resources of a document with some instances put or removed, where only the chunks that hold their blocks are looked into.';
revoke all on function kilolock._edit_resources(text[], integer, integer, jsonb, jsonb) from public;
