-- The resources of a document with some instances put or removed: what stands between the brackets of "resources".
--
-- p_body    blocks in Terraform's layout (_lay_out_document); the empty text where there are none
-- p_put     [{"module", "mode", "type", "name", "provider", "index_key", "deposed", "instance": text in Terraform's layout}]
-- p_remove  [{"module", "mode", "type", "name", "index_key", "deposed"}]
--
-- An instance takes the place of the one with its key, or goes before the first that Terraform's order has behind it; a
-- new block likewise. A block takes the provider of what is put into it, as Terraform has one provider a block. A block
-- whose last instance goes, goes with it. All other bytes stay.
--
-- What p_put marks with a "row_id", and what p_remove names, must be there.
--
-- Raises  KLX03  the body is in another layout, or has not what it must have
create or replace function kilolock._edit_blocks(p_body text, p_put jsonb, p_remove jsonb)
  returns text
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_body text;
begin
  with put as materialized (
    select coalesce(p.module, '') as module, p.mode, p.type, p.name, coalesce(p.provider, '') as provider,
           p.index_key, coalesce(p.deposed, '') as deposed,
           p.row_id, substr(p.instance, 2, length(p.instance) - 11) as content, p.n
    from rows from (jsonb_to_recordset(p_put) as (module text, mode text, type text, name text, provider text,
      index_key jsonb, deposed text, instance text, row_id bigint))
      with ordinality p(module, mode, type, name, provider, index_key, deposed, instance, row_id, n)
  ),
  gone as materialized (
    select coalesce(r.module, '') as module, r.mode, r.type, r.name, r.index_key, coalesce(r.deposed, '') as deposed
    from jsonb_to_recordset(p_remove) r(module text, mode text, type text, name text, index_key jsonb, deposed text)
  ),
  touched as materialized (
    select p.module, p.mode, p.type, p.name from put p
    union
    select g.module, g.mode, g.type, g.name from gone g
  ),
  head as materialized (
    select b.* from kilolock._split_blocks(p_body) b
  ),
  target as materialized (
    select h.*, t.name is not null as is_touched
    from head h
    left join touched t on t.module = h.module and t.mode = h.mode and t.type = h.type and t.name = h.name
  ),
  instance as materialized (
    select t.n as block_n, t.module, t.mode, t.type, t.name, i.n, i.content,
           i.index_key, i.deposed, i.is_laid_out
    from target t
    cross join kilolock._split_instances(t.list) i
    where t.is_touched
  ),
  placed as materialized (
    select p.*, e.block_n, e.n as instance_n,
           coalesce(e.block_n, (
             select max(t.n) from target t
             where t.module = p.module and t.mode = p.mode and t.type = p.type and t.name = p.name)) as at_block
    from put p
    left join instance e on e.module = p.module and e.mode = p.mode and e.type = p.type and e.name = p.name
      and e.index_key is not distinct from p.index_key and e.deposed = p.deposed
  ),
  kept as (
    select i.block_n, i.n as place, 1 as turn, i.content, i.index_key, i.deposed
    from instance i
    where not exists (
        select from gone g
        where g.module = i.module and g.mode = i.mode and g.type = i.type and g.name = i.name
          and g.index_key is not distinct from i.index_key and g.deposed = i.deposed)
      and not exists (select from placed p where p.block_n = i.block_n and p.instance_n = i.n)
    union all
    select p.block_n, p.instance_n, 1, p.content, p.index_key, p.deposed
    from placed p
    where p.block_n is not null
    union all
    select p.at_block,
           coalesce((
             select min(i.n) from instance i
             where i.block_n = p.at_block and kilolock._instance_order(i.index_key, i.deposed) > kilolock._instance_order(p.index_key, p.deposed)),
             9223372036854775807), 0, p.content, p.index_key, p.deposed
    from placed p
    where p.block_n is null and p.at_block is not null
  ),
  list as (
    select k.block_n, string_agg('        {' || k.content || e'\n        }', e',\n'
             order by k.place, k.turn, kilolock._instance_order(k.index_key, k.deposed)) as content
    from kept k
    group by k.block_n
  ),
  new_block as (
    select p.module, p.mode, p.type, p.name, (array_agg(p.provider order by p.n desc))[1] as provider,
           string_agg('        {' || p.content || e'\n        }', e',\n'
             order by kilolock._instance_order(p.index_key, p.deposed)) as content
    from placed p
    where p.at_block is null
    group by p.module, p.mode, p.type, p.name
  ),
  written as (
    select t.n as place, 1 as turn, array[t.module, t.mode, t.type, t.name] as key,
           case
             when not t.is_touched then t.text
             else case
                 when w.provider is null or w.provider = t.provider then t.header
                 else kilolock._set_provider(t.header, w.provider)
               end || e'\n      "instances": [\n' || l.content || e'\n      ]'
           end as content
    from target t
    left join list l on l.block_n = t.n
    left join lateral (
      select (array_agg(p.provider order by p.n desc))[1] as provider from placed p where p.at_block = t.n
    ) w on t.is_touched
    where not t.is_touched or l.content is not null or t.list = '[]'
    union all
    select coalesce((
             select min(t.n) from target t
             where array[t.module, t.mode, t.type, t.name] collate "C" > array[b.module, b.mode, b.type, b.name] collate "C"),
             9223372036854775807), 0, array[b.module, b.mode, b.type, b.name],
           case when b.module <> '' then e'\n      "module": ' || kilolock._write_string(b.module) || ',' else '' end
             || e'\n      "mode": ' || kilolock._write_string(b.mode) || e',\n      "type": ' || kilolock._write_string(b.type)
             || e',\n      "name": ' || kilolock._write_string(b.name)
             || case when b.provider <> '' then e',\n      "provider": ' || kilolock._write_string(b.provider) else '' end
             || e',\n      "instances": [\n' || b.content || e'\n      ]'
    from new_block b
  )
  select case
           when (select bool_and(t.is_laid_out) from target t) is not false
             and (select bool_and(i.is_laid_out) from instance i) is not false
             and not exists (select from placed p where p.row_id is not null and p.block_n is null)
             and not exists (
               select from gone g
               where not exists (
                 select from instance i
                 where i.module = g.module and i.mode = g.mode and i.type = g.type and i.name = g.name
                   and i.index_key is not distinct from g.index_key and i.deposed = g.deposed))
             then coalesce((
               select string_agg(e'\n    {' || w.content || e'\n    }', ',' order by w.place, w.turn, w.key collate "C")
               from written w), '')
         end
  into v_body;
  if v_body is null then
    raise exception 'another layout' using errcode = 'KLX03';
  end if;
  return v_body;
exception
  when invalid_text_representation or substring_error then
    raise exception 'another layout' using errcode = 'KLX03';
end;
$$;

comment on function kilolock._edit_blocks(text, jsonb, jsonb) is
  'The resources of a document with some instances put or removed.';
revoke all on function kilolock._edit_blocks(text, jsonb, jsonb) from public;
