-- A state document of any layout in Terraform's: its keys in Terraform's order, two spaces a level, every value's tokens
-- as they were. Sections that are null or missing are written as Terraform writes empty ones. The order of resources
-- and instances stays.
create or replace function kilolock._lay_out_document(p_text text)
  returns text
  language sql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
  with top as materialized (
    select m.n, m.key, m.value
    from kilolock._members(kilolock._hide_escapes(p_text)::json) m
  ),
  block as (
    select b.n, m.n as member, m.key, m.value,
           case m.key when 'module' then 1 when 'mode' then 2 when 'type' then 3 when 'name' then 4 when 'each' then 5
             when 'provider' then 6 when 'instances' then 8 else 7 end as place
    from top t
    cross join json_array_elements(case when t.value <> 'null' then t.value::json end) with ordinality b(value, n)
    cross join kilolock._members(b.value) m
    where t.key = 'resources' and not (m.key = 'module' and m.value in ('null', '""'))
  ),
  instances as (
    select b.n, string_agg(e'\n        ' || case when i.text = '{}' then e'{\n        }' else i.text end, ',' order by e.n) as value
    from block b
    cross join json_array_elements(case when b.value <> 'null' then b.value::json end) with ordinality e(value, n)
    cross join lateral (select kilolock._indent_json(kilolock._show_escapes(e.value::text), 4) as text) i
    where b.key = 'instances'
    group by b.n
  ),
  laid_out as (
    select b.n,
           string_agg(e'\n      "' || kilolock._show_escapes(b.key) || '": ' || case
             when b.key <> 'instances' then kilolock._indent_json(kilolock._show_escapes(b.value), 3)
             when i.value is null then '[]'
             else '[' || i.value || e'\n      ]'
           end, ',' order by b.place, b.member) as members,
           bool_or(b.key = 'instances') as has_instances
    from block b
    left join instances i on i.n = b.n
    group by b.n
  ),
  resources as (
    select '[' || string_agg(e'\n    {' || l.members
             || case when l.has_instances then '' else e',\n      "instances": []' end || e'\n    }', ',' order by l.n) || e'\n  ]' as value
    from laid_out l
  ),
  section as (
    select k.key, k.place, t.n, k.initial, t.value
    from (values ('version', 1, '4'), ('terraform_version', 2, null), ('serial', 3, '0'), ('lineage', 4, '""'),
      ('outputs', 5, '{}'), ('resources', 6, '[]'), ('check_results', 7, null)) k(key, place, initial)
    left join top t on t.key = k.key
    union all
    select t.key, 8, t.n, null, t.value
    from top t
    where t.key not in ('version', 'terraform_version', 'serial', 'lineage', 'outputs', 'resources', 'check_results')
  )
  select '{' || string_agg(e'\n  "' || kilolock._show_escapes(s.key) || '": ' || case
           when s.key = 'resources' and r.value is not null then r.value
           when s.key = 'resources' or s.value is null or s.value = 'null' and s.initial is not null then s.initial
           else kilolock._indent_json(kilolock._show_escapes(s.value), 1)
         end, ',' order by s.place, s.n) || e'\n}\n'
  from section s
  cross join resources r
  where s.value is not null or s.initial is not null
$$;

comment on function kilolock._lay_out_document(text) is
  'A state document in Terraform''s layout, every token as it was.';
revoke all on function kilolock._lay_out_document(text) from public;
