-- The outputs of a document with some put or removed; a new one goes before the first whose name is greater.
--
-- p_edit  {"put": {name: JSON text of the output}, "remove": [name]}; a name that is not there is gone already
create or replace function kilolock._edit_outputs(p_outputs text, p_edit jsonb)
  returns text
  language sql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
  with present as (
    select m.n, kilolock._read_string(m.key) as name, '"' || kilolock._show_escapes(m.key) || '"' as key,
           kilolock._show_escapes(m.value) as value
    from kilolock._members(case when p_outputs = 'null' then '{}' else kilolock._hide_escapes(p_outputs)::json end) m
  ),
  put as (
    select e.key as name, kilolock._indent_json(e.value, 2) as value
    from jsonb_each_text(coalesce(p_edit -> 'put', '{}')) e
  ),
  edited as (
    select p.n as place, 1 as turn, p.name, p.key, coalesce(u.value, p.value) as value
    from present p
    left join put u on u.name = p.name
    where u.name is not null or not coalesce(p_edit -> 'remove', '[]') ? p.name
    union all
    select coalesce((select min(p.n) from present p where p.name collate "C" > u.name), 9223372036854775807), 0,
           u.name, kilolock._write_string(u.name), u.value
    from put u
    where not exists (select from present p where p.name = u.name)
  )
  select coalesce('{' || string_agg(e'\n    ' || e.key || ': ' || e.value, ',' order by e.place, e.turn, e.name collate "C")
    || e'\n  }', '{}')
  from edited e
$$;

comment on function kilolock._edit_outputs(text, jsonb) is
  'The outputs of a document with some put or removed.';
revoke all on function kilolock._edit_outputs(text, jsonb) from public;
