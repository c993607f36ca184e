-- Assertions with pgTAP's names and pgTAP's argument order, as far as our tests need them.
--
-- Each answers one line of TAP: "ok - label", or "not ok - label" and lines that begin with "# ".
create schema if not exists tap;
grant usage on schema tap to public;

create or replace function tap._result(p_ok boolean, p_label text, p_notes text[] default '{}')
  returns text
  language sql
as $$
  select case
    when p_ok then 'ok - ' || p_label
    else concat_ws(e'\n', 'not ok - ' || p_label,
      (select string_agg('# ' || replace(n.note, e'\n', e'\n# '), e'\n') from unnest(p_notes) n(note)))
  end;
$$;

create or replace function tap.ok(p_ok boolean, p_label text)
  returns text
  language sql
as $$
  select tap._result(coalesce(p_ok, false), p_label, array['got ' || coalesce(p_ok::text, 'null')]);
$$;

create or replace function tap.is(p_have anyelement, p_want anyelement, p_label text)
  returns text
  language sql
as $$
  select tap._result(p_have is not distinct from p_want, p_label,
    array['have ' || coalesce(p_have::text, 'null'), 'want ' || coalesce(p_want::text, 'null')]);
$$;

create or replace function tap.isnt(p_have anyelement, p_other anyelement, p_label text)
  returns text
  language sql
as $$
  select tap._result(p_have is distinct from p_other, p_label,
    array['have ' || coalesce(p_have::text, 'null')]);
$$;

-- LIKE and ~ are pgTAP's alike() and matches().
create or replace function tap.alike(p_have text, p_pattern text, p_label text)
  returns text
  language sql
as $$
  select tap._result(coalesce(p_have like p_pattern, false), p_label,
    array['have ' || coalesce(p_have, 'null'), 'want like ' || p_pattern]);
$$;

create or replace function tap.matches(p_have text, p_pattern text, p_label text)
  returns text
  language sql
as $$
  select tap._result(coalesce(p_have ~ p_pattern, false), p_label,
    array['have ' || coalesce(p_have, 'null'), 'want ~ ' || p_pattern]);
$$;

create or replace function tap.pass(p_label text)
  returns text
  language sql
as $$
  select 'ok - ' || p_label;
$$;

create or replace function tap.fail(p_label text)
  returns text
  language sql
as $$
  select 'not ok - ' || p_label;
$$;

-- A null code or message accepts any.
create or replace function tap.throws_ok(p_sql text, p_code text, p_message text, p_label text)
  returns text
  language plpgsql
as $$
declare
  v_code    text;
  v_message text;
begin
  begin
    execute p_sql;
  exception when others then
    get stacked diagnostics v_code = returned_sqlstate, v_message = message_text;
  end;
  return tap._result(
    v_code is not null
      and v_code = coalesce(p_code, v_code)
      and v_message = coalesce(p_message, v_message),
    p_label,
    array[
      'have ' || coalesce(v_code || ': ' || v_message, 'no error'),
      'want ' || coalesce(p_code, 'any code') || ': ' || coalesce(p_message, 'any message')
    ]);
end;
$$;

-- The same with a LIKE pattern for the message.
create or replace function tap.throws_like(p_sql text, p_pattern text, p_label text)
  returns text
  language plpgsql
as $$
declare
  v_message text;
begin
  begin
    execute p_sql;
  exception when others then
    get stacked diagnostics v_message = message_text;
  end;
  return tap._result(coalesce(v_message like p_pattern, false), p_label,
    array['have ' || coalesce(v_message, 'no error'), 'want like ' || p_pattern]);
end;
$$;

create or replace function tap.lives_ok(p_sql text, p_label text)
  returns text
  language plpgsql
as $$
declare
  v_message text;
begin
  begin
    execute p_sql;
  exception when others then
    get stacked diagnostics v_message = message_text;
    return tap._result(false, p_label, array[sqlstate || ': ' || v_message]);
  end;
  return tap._result(true, p_label);
end;
$$;

create or replace function tap._rows(p_sql text)
  returns text[]
  language plpgsql
as $$
declare
  v_rows text[];
begin
  execute format('select array_agg(q.r) from (select row(s.*)::text as r from (%s) s) q',
    regexp_replace(p_sql, ';\s*$', '')) into v_rows;
  return coalesce(v_rows, '{}');
end;
$$;

-- The rows of one query equal those of another, in their order.
create or replace function tap.results_eq(p_have text, p_want text, p_label text)
  returns text
  language plpgsql
as $$
declare
  v_have text[] := tap._rows(p_have);
  v_want text[] := tap._rows(p_want);
begin
  return tap._result(v_have = v_want, p_label,
    array['have ' || v_have::text, 'want ' || v_want::text]);
end;
$$;

-- The same in any order, duplicates counted.
create or replace function tap.bag_eq(p_have text, p_want text, p_label text)
  returns text
  language plpgsql
as $$
declare
  v_have text[];
  v_want text[];
begin
  select coalesce(array_agg(r.r order by r.r), '{}') into v_have from unnest(tap._rows(p_have)) r(r);
  select coalesce(array_agg(r.r order by r.r), '{}') into v_want from unnest(tap._rows(p_want)) r(r);
  return tap._result(v_have = v_want, p_label,
    array['have ' || v_have::text, 'want ' || v_want::text]);
end;
$$;

create or replace function tap.is_empty(p_sql text, p_label text)
  returns text
  language plpgsql
as $$
declare
  v_rows text[] := tap._rows(p_sql);
begin
  return tap._result(v_rows = '{}', p_label, array['have ' || v_rows::text]);
end;
$$;

create or replace function tap.isnt_empty(p_sql text, p_label text)
  returns text
  language plpgsql
as $$
begin
  return tap._result(tap._rows(p_sql) <> '{}', p_label, array['no rows']);
end;
$$;

-- A state document as Terraform lays it out, as the body of a POST. p_resources is the JSON array of resources.
create or replace function tap.state(p_serial bigint, p_resources text default '[]', p_outputs text default '{}', p_lineage text default 'l')
  returns bytea
  language sql
as $$
  select convert_to(format(
    e'{\n  "version": 4,\n  "terraform_version": "1.11.4",\n  "serial": %s,\n  "lineage": "%s",\n  "outputs": %s,\n  "resources": %s,\n  "check_results": null\n}\n',
    p_serial, p_lineage, p_outputs, p_resources), 'UTF8')
$$;

-- A resource block with one instance, as JSON.
create or replace function tap.block(p_name text, p_more text default '', p_module text default '', p_key text default '')
  returns text
  language sql
as $$
  select format('{%s"mode":"managed","type":"test","name":"%s","provider":"p","instances":[{%s"schema_version":0,"attributes":{"id":"%s"%s}}]}',
    case when p_module <> '' then '"module":' || to_json(p_module) || ',' else '' end, p_name,
    case when p_key <> '' then '"index_key":' || p_key || ',' else '' end, p_name,
    case when p_more = '' then '' when p_more like '}%' then p_more else ',' || p_more end)
$$;

-- POST of a document without a lock.
create or replace function tap.post(p_name text, p_body bytea, p_lock_id text default null)
  returns json
  language sql
as $$
  select kilolock.write_state(null, null, p_name, p_lock_id, p_body, null, null)::json
$$;

-- LOCK with an ID.
create or replace function tap.lock(p_name text, p_id text)
  returns void
  language sql
as $$
  select kilolock.acquire_lock(null, null, p_name, convert_to(format('{"ID":"%s","Operation":"OperationTypeApply","Info":"","Who":"ann@host","Version":"1.11.4","Created":"2026-03-04T05:06:07.890123456Z","Path":""}', p_id), 'UTF8'), null)
$$;

-- An action, by its function; {"run": "ann"} means the run that tap.run began for ann.
create or replace function tap.act(p_function text, p_request jsonb, p_actor text default null)
  returns jsonb
  language plpgsql
as $$
declare
  v_answer jsonb;
begin
  execute format('select kilolock.%I($1, $2)', p_function) into v_answer
  using p_request || coalesce((
    select jsonb_build_object('run', r.id)
    from kilolock.apply_runs r
    where to_jsonb(r.holder) = p_request -> 'run'
    order by r.started_at desc
    limit 1), '{}'), p_actor;
  return v_answer;
end;
$$;

-- Begin an apply run; its holder is how tap.act finds it.
create or replace function tap.run(p_who text, p_state text default 'prod', p_base bigint default 0)
  returns jsonb
  language sql
as $$
  select tap.act('begin_apply_run', jsonb_build_object('state', p_state, 'who', p_who, 'base_version', p_base))
$$;

-- Ask for addresses: 'granted', or how many stand in the way and its place.
create or replace function tap.acquire(p_run text, p_write text[] default '{}', p_read text[] default '{}')
  returns text
  language sql
as $$
  select case
    when (a.answer ->> 'granted')::boolean then 'granted'
    else concat_ws(' ', a.answer ->> 'blockers_count', 'in the way,', 'place ' || (a.answer ->> 'place'))
  end
  from tap.act('acquire_reservations', jsonb_build_object('run', p_run, 'write', p_write, 'read', p_read)) a(answer)
$$;

-- Let the lease of a run, or its place in the queue, end.
create or replace function tap.expire(p_run text)
  returns void
  language sql
as $$
  update kilolock.apply_runs r set expires_at = clock_timestamp() - interval '1 second' where r.holder = p_run
$$;

-- A delta that puts one instance.
create or replace function tap.delta(p_name text, p_module text default '', p_key text default null)
  returns jsonb
  language sql
as $$
  select jsonb_build_object('put', jsonb_build_array(jsonb_build_object('module', p_module, 'mode', 'managed', 'type', 't', 'name', p_name,
    'provider', 'provider["p"]', 'instance', '{' || coalesce('"index_key":' || p_key || ',', '') || '"schema_version":0,"attributes":{"id":"x"}}')))
$$;
