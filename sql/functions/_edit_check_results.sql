-- The check results of a document with some put or removed; Terraform writes them in no order, a new one goes last.
--
-- p_edit  {"put": [JSON text of an element], "remove": [{"object_kind", "config_addr"}]}; what is not there is gone already
create or replace function kilolock._edit_check_results(p_checks text, p_edit jsonb)
  returns text
  language sql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
  with put as materialized (
    select p.n, kilolock._indent_json(p.value, 2) as value, j.value ->> 'object_kind' as object_kind, j.value ->> 'config_addr' as config_addr
    from jsonb_array_elements_text(coalesce(p_edit -> 'put', '[]')) with ordinality p(value, n)
    cross join lateral kilolock._read_json(p.value, true) j(value)
  ),
  present as materialized (
    select e.n, kilolock._show_escapes(e.value::text) as value, kilolock._read_string(e.value ->> 'object_kind') as object_kind,
           kilolock._read_string(e.value ->> 'config_addr') as config_addr
    from json_array_elements(case when p_checks <> 'null' then kilolock._hide_escapes(p_checks)::json end) with ordinality e(value, n)
  ),
  edited as (
    select p.n as place, 0 as turn, coalesce(u.value, p.value) as value
    from present p
    left join put u on u.object_kind = p.object_kind and u.config_addr = p.config_addr
    where u.n is not null or not exists (
      select from jsonb_to_recordset(coalesce(p_edit -> 'remove', '[]')) r(object_kind text, config_addr text)
      where r.object_kind = p.object_kind and r.config_addr = p.config_addr)
    union all
    select 9223372036854775807, u.n, u.value
    from put u
    where not exists (select from present p where p.object_kind = u.object_kind and p.config_addr = u.config_addr)
  )
  select coalesce('[' || string_agg(e'\n    ' || e.value, ',' order by e.place, e.turn) || e'\n  ]', 'null')
  from edited e
$$;

comment on function kilolock._edit_check_results(text, jsonb) is
  'The check results of a document with some put or removed.';
revoke all on function kilolock._edit_check_results(text, jsonb) from public;
