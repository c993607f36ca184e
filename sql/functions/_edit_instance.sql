-- An instance with another key, and other names in its list of dependencies; every other token as it was.
--
-- p_content       what stands between its braces
-- p_index_key     its key from now on, JSON's null for none; null where it keeps its own
-- p_dependencies  {old address: [new addresses]}; what it does not name stays
create or replace function kilolock._edit_instance(p_content text, p_index_key jsonb, p_dependencies jsonb)
  returns text
  language sql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
  with member as (
    select m.n, m.key, m.value
    from kilolock._members(kilolock._hide_escapes('{' || p_content || '}')::json) m
    where m.key <> 'index_key' or p_index_key is null
    union all
    select 0, 'index_key', case jsonb_typeof(p_index_key)
      when 'string' then kilolock._hide_escapes(kilolock._write_string(p_index_key #>> '{}')) else p_index_key::text end
    where p_index_key <> 'null'
  ),
  dependency as (
    select n.name as token, min(d.n * 1000 + n.n) as place
    from member m
    cross join json_array_elements(case when m.key = 'dependencies' and m.value <> 'null' then m.value::json end)
      with ordinality d(value, n)
    cross join lateral (select kilolock._show_escapes(d.value::text) as token, kilolock._read_string(d.value #>> '{}') as name) o
    cross join lateral (
      select o.token as name, 0 as n
      where not coalesce(p_dependencies ? o.name, false)
      union all
      select kilolock._write_string(x.name), x.n
      from jsonb_array_elements_text(p_dependencies -> o.name) with ordinality x(name, n)
    ) n
    group by n.name
  )
  select '{' || string_agg('"' || kilolock._show_escapes(m.key) || '": ' || case
         when m.key <> 'dependencies' or p_dependencies = '{}' then kilolock._show_escapes(m.value)
         else coalesce((select '[' || string_agg(d.token, ',' order by d.place) || ']' from dependency d), kilolock._show_escapes(m.value))
       end, ',' order by m.n) || '}'
  from member m
$$;

comment on function kilolock._edit_instance(text, jsonb, jsonb) is
  'An instance with another key and other dependencies.';
revoke all on function kilolock._edit_instance(text, jsonb, jsonb) from public;
