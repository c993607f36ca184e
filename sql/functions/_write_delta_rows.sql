-- Make the rows of a state match a delta: those of the instances that it names, and of outputs where it has any.
--
-- p_new      the version that the delta makes
-- p_delta    as _check_delta answers it
-- p_outputs  the document's first members as JSON, where outputs changed
create or replace function kilolock._write_delta_rows(
  p_state kilolock.states, p_new kilolock.version_documents, p_salt text, p_delta jsonb, p_outputs text,
  out created integer, out updated integer, out moved integer, out deleted integer, out resource_count integer,
  out managed_change integer
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_blocks  json;
  v_bytes   bytea;
  v_outputs text;
begin
  -- The instances that were put, as references into one text: the form that _store_document makes.
  with put as materialized (
    select p.module, p.mode, p.type, p.name, p.provider, p.n, convert_to(p.instance, 'UTF8') as bytes
    from rows from (jsonb_to_recordset(p_delta -> 'put') as (module text, mode text, type text, name text, provider text, instance text))
      with ordinality p(module, mode, type, name, provider, instance, n)
  ),
  placed as (
    select p.*, coalesce(sum(length(p.bytes)) over (order by p.n rows between unbounded preceding and 1 preceding), 0) as first_byte
    from put p
  ),
  block as (
    select p.module, p.mode, p.type, p.name, p.provider,
           json_agg('kl' || left(p_salt, 8) || encode(substr(sha256(convert_to(p_salt, 'UTF8') || p.bytes), 1, 16), 'hex')
             || p.first_byte || '+' || length(p.bytes) order by p.n) as instances
    from placed p
    group by p.module, p.mode, p.type, p.name, p.provider
  )
  select (select json_agg(json_strip_nulls(json_build_object('module', nullif(b.module, ''), 'mode', b.mode, 'type', b.type,
            'name', b.name, 'provider', nullif(b.provider, ''), 'instances', b.instances))) from block b),
         (select string_agg(p.bytes, '' order by p.n) from put p)
  into v_blocks, v_bytes;
  select kilolock._clean_json(kilolock._show_escapes(m.value)) into v_outputs
  from kilolock._members(kilolock._hide_escapes(p_outputs)::json) m
  where m.key = 'outputs';

  select r.created, r.updated, r.moved, r.deleted, r.resource_count, r.managed_change
  into created, updated, moved, deleted, resource_count, managed_change
  from kilolock._write_rows(p_state.id, p_state.current_version_id, p_new.version, p_new.serial, p_salt,
    json_strip_nulls(json_build_object('resources', v_blocks, 'outputs', v_outputs::json)), coalesce(v_bytes, ''), 0, true,
    p_new.created_at, p_delta -> 'moved', array(
      select (e.value ->> 'row_id')::bigint
      from jsonb_array_elements((p_delta -> 'put') || (p_delta -> 'remove')) e
      where e.value ? 'row_id')) r;
end;
$$;

comment on function kilolock._write_delta_rows(kilolock.states, kilolock.version_documents, text, jsonb, text) is
  'Make the rows of a state match a delta.';
revoke all on function kilolock._write_delta_rows(kilolock.states, kilolock.version_documents, text, jsonb, text) from public;
