-- A delta as _write_delta takes it, checked and made ready: every part there, every instance with its key and in
-- Terraform's layout, every address to remove as a block and a key.
--
-- Raises  KLB20  the delta is not of that form
--         KLN04  an address to remove is not in the state
create or replace function kilolock._check_delta(p_state kilolock.states, p_delta jsonb)
  returns jsonb
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_delta   jsonb := jsonb_strip_nulls(p_delta);
  v_problem text;
  v_put     jsonb;
  v_remove  jsonb;
  v_absent  text;
begin
  v_problem := case
    when jsonb_typeof(v_delta) is distinct from 'object' then 'it is no object'
    when coalesce(jsonb_typeof(v_delta -> 'put'), 'array') <> 'array' then '"put" is no array'
    when coalesce(jsonb_typeof(v_delta -> 'remove'), 'array') <> 'array' then '"remove" is no array'
    when coalesce(jsonb_typeof(v_delta -> 'outputs'), 'object') <> 'object' then '"outputs" is no object'
    when coalesce(jsonb_typeof(v_delta #> '{outputs,put}'), 'object') <> 'object' then '"put" of "outputs" is no object'
    when coalesce(jsonb_typeof(v_delta #> '{outputs,remove}'), 'array') <> 'array' then '"remove" of "outputs" is no array'
    when coalesce(jsonb_typeof(v_delta -> 'check_results'), 'object') <> 'object' then '"check_results" is no object'
    when coalesce(jsonb_typeof(v_delta #> '{check_results,put}'), 'array') <> 'array' then '"put" of "check_results" is no array'
    when coalesce(jsonb_typeof(v_delta #> '{check_results,remove}'), 'array') <> 'array'
      then '"remove" of "check_results" is no array'
    when coalesce(jsonb_typeof(v_delta -> 'moved'), 'array') <> 'array' then '"moved" is no array'
  end;
  if v_problem is null then
    select min(x.problem) into v_problem
    from (
      select format('"put" has no resource instance at %s', p.n) as problem
      from jsonb_array_elements(coalesce(v_delta -> 'put', '[]')) with ordinality p(value, n)
      where jsonb_typeof(p.value) <> 'object' or coalesce(p.value ->> 'mode', '') not in ('managed', 'data')
        or coalesce(jsonb_typeof(p.value -> 'module'), 'string') <> 'string'
        or coalesce(jsonb_typeof(p.value -> 'provider'), 'string') <> 'string'
        or jsonb_typeof(p.value -> 'type') is distinct from 'string' or p.value ->> 'type' = ''
        or jsonb_typeof(p.value -> 'name') is distinct from 'string' or p.value ->> 'name' = ''
        or jsonb_typeof(p.value -> 'instance') is distinct from 'string'
      union all
      select format('"remove" has no address at %s', r.n)
      from jsonb_array_elements(coalesce(v_delta -> 'remove', '[]')) with ordinality r(value, n)
      where jsonb_typeof(r.value) <> 'object' or jsonb_typeof(r.value -> 'address') is distinct from 'string'
        or coalesce(jsonb_typeof(r.value -> 'deposed'), 'string') <> 'string'
      union all
      select format('output "%s" is not given as text', o.key)
      from jsonb_each(coalesce(v_delta #> '{outputs,put}', '{}')) o
      where jsonb_typeof(o.value) <> 'string'
      union all
      select format('"remove" of "outputs" has no name at %s', o.n)
      from jsonb_array_elements(coalesce(v_delta #> '{outputs,remove}', '[]')) with ordinality o(value, n)
      where jsonb_typeof(o.value) <> 'string'
      union all
      select format('check result %s is not given as text', c.n)
      from jsonb_array_elements(coalesce(v_delta #> '{check_results,put}', '[]')) with ordinality c(value, n)
      where jsonb_typeof(c.value) <> 'string'
      union all
      select format('"remove" of "check_results" names no check at %s', c.n)
      from jsonb_array_elements(coalesce(v_delta #> '{check_results,remove}', '[]')) with ordinality c(value, n)
      where jsonb_typeof(c.value) <> 'object' or jsonb_typeof(c.value -> 'object_kind') is distinct from 'string'
        or jsonb_typeof(c.value -> 'config_addr') is distinct from 'string'
      union all
      select format('"moved" has no pair of addresses at %s', m.n)
      from jsonb_array_elements(coalesce(v_delta -> 'moved', '[]')) with ordinality m(value, n)
      where jsonb_typeof(m.value) <> 'object' or jsonb_typeof(m.value -> 'from') is distinct from 'string'
        or jsonb_typeof(m.value -> 'to') is distinct from 'string'
        or coalesce(jsonb_typeof(m.value -> 'deposed'), 'string') <> 'string'
      union all
      select format('"moved" has the address "%s" twice', min(a.address))
      from (
        select m.value ->> k.key as address, k.key, coalesce(m.value ->> 'deposed', '') as deposed
        from jsonb_array_elements(coalesce(v_delta -> 'moved', '[]')) m(value)
        cross join (values ('from'), ('to')) k(key)
        where jsonb_typeof(m.value) = 'object'
      ) a
      group by a.address, a.key, a.deposed
      having count(*) > 1
    ) x;
  end if;
  if v_problem is null then
    begin
      select coalesce(jsonb_agg(p.value || jsonb_build_object('instance', kilolock._indent_json(p.value ->> 'instance', 4),
               'index_key', nullif(i.value -> 'index_key', 'null'), 'deposed', coalesce(i.value ->> 'deposed', '')) order by p.n), '[]'),
             min(case when json_typeof(kilolock._hide_escapes(p.value ->> 'instance')::json) <> 'object' or i.value = '{}'
               then format('instance %s is no object with members', p.n) end)
      into v_put, v_problem
      from jsonb_array_elements(coalesce(v_delta -> 'put', '[]')) with ordinality p(value, n)
      cross join lateral kilolock._read_json(p.value ->> 'instance', true) i(value);

      select coalesce(v_problem, min(case
        when json_typeof(kilolock._hide_escapes(t.value)::json) <> 'object' then format('%s is no object', t.what) end))
      into v_problem
      from (
        select format('output "%s"', o.key) as what, o.value
        from jsonb_each_text(coalesce(v_delta #> '{outputs,put}', '{}')) o
        union all
        select format('check result %s', c.n), c.value
        from jsonb_array_elements_text(coalesce(v_delta #> '{check_results,put}', '[]')) with ordinality c(value, n)
      ) t;
    exception
      when invalid_text_representation then
        v_problem := format('a part is not JSON: %s', sqlerrm);
    end;
  end if;
  if v_problem is null then
    -- A few addresses among many: each is looked up by its index.
    select coalesce(jsonb_agg(p.value || jsonb_strip_nulls(jsonb_build_object('row_id', l.id)) order by p.n), '[]') into v_put
    from jsonb_array_elements(v_put) with ordinality p(value, n)
    left join lateral kilolock._live_objects(p_state, kilolock._write_address(p.value ->> 'module', p.value ->> 'mode',
      p.value ->> 'type', p.value ->> 'name', p.value -> 'index_key')) l on coalesce(l.deposed_key, '') = p.value ->> 'deposed';

    select coalesce(jsonb_agg(jsonb_build_object('row_id', l.id, 'module', l.module_path, 'mode', l.mode, 'type', l.type, 'name', l.name,
             'index_key', l.index_key, 'deposed', coalesce(l.deposed_key, ''))), '[]'),
           min(case when l.id is null then r.address end)
    into v_remove, v_absent
    from (
      select distinct e.value ->> 'address' as address, coalesce(e.value ->> 'deposed', '') as deposed
      from jsonb_array_elements(coalesce(v_delta -> 'remove', '[]')) e
    ) r
    left join lateral kilolock._live_objects(p_state, r.address) l on coalesce(l.deposed_key, '') = r.deposed;
    if v_absent is not null then
      raise exception 'state "%" has no resource "%" to remove', p_state.name, v_absent
        using errcode = 'KLN04', hint = 'Addresses are written as terraform state list prints them, keys in double quotes.';
    end if;

    select format('%s.%s stands in it twice', x.type, x.name) into v_problem
    from (
      select p.type, p.name
      from (
        select coalesce(u.module, '') as module, u.mode, u.type, u.name, u.index_key, u.deposed
        from jsonb_to_recordset(v_put) u(module text, mode text, type text, name text, index_key jsonb, deposed text)
        union all
        select u.module, u.mode, u.type, u.name, u.index_key, u.deposed
        from jsonb_to_recordset(v_remove) u(module text, mode text, type text, name text, index_key jsonb, deposed text)
      ) p
      group by p.module, p.mode, p.type, p.name, p.index_key, p.deposed
      having count(*) > 1
      limit 1
    ) x;
  end if;
  if v_problem is not null then
    raise exception 'state "%": the delta cannot be read: %', p_state.name, v_problem
      using errcode = 'KLB20', hint = 'Nothing was stored. sql/functions/_write_delta.sql describes the form.';
  end if;
  return jsonb_build_object('put', v_put, 'remove', v_remove, 'moved', coalesce(v_delta -> 'moved', '[]'),
    'outputs', coalesce(v_delta -> 'outputs', '{}'),
    'check_results', coalesce(v_delta -> 'check_results', '{}'));
end;
$$;

comment on function kilolock._check_delta(kilolock.states, jsonb) is
  'A delta, checked and made ready for the document.';
revoke all on function kilolock._check_delta(kilolock.states, jsonb) from public;
