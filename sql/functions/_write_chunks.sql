-- A delta written into the chunks and rows that it touches, and no others.
--
-- The version is what _write_document would make of the edited document: its chunks, its size and digest, its rows.
--
-- With the settings of _write_document, since both come down to the same statements, which have one plan.
--
-- p_head   is known to be in Terraform's layout, and so is the new version; p_parts are the texts of its chunks
-- p_delta  as _check_delta answers it
--
-- Raises  KLX03  only the whole document tells where something goes (_edit_chunks)
--         KLQ01, KLQ02  more than a hard limit (_check_quota)
create or replace function kilolock._write_chunks(
  p_state kilolock.states, p_head kilolock.version_documents, p_parts text[], p_delta jsonb, p_source text, p_actor text, p_payload jsonb
)
  returns json
  language plpgsql
  set search_path = pg_catalog, pg_temp
  set work_mem = '256MB'
  set hash_mem_multiplier = 2
  set enable_nestloop = off
  set enable_mergejoin = off
  set enable_seqscan = off
  set plan_cache_mode = force_generic_plan
  set jit = off
as $$
declare
  v_new    kilolock.version_documents := p_head;
  v_salt   text;
  v_parts  text[] := p_parts;
  v_edit   record;
  v_text   text;
  v_rows   record;
begin
  select s.salt into v_salt from kilolock.state_salts s where s.state_id = p_state.id;
  v_edit := kilolock._edit_chunks(p_parts, p_head.serial + 1, p_delta);
  for n in 1 .. cardinality(v_edit.places) loop
    v_parts[v_edit.places[n]] := v_edit.texts[n];
  end loop;
  v_new.chunk_ids := kilolock._store_chunks(p_state.id, v_salt, p_head.chunk_ids, v_parts, v_edit.places);
  v_text := array_to_string(v_parts, '');
  v_new.raw_size := octet_length(v_text);
  v_new.raw_md5 := md5(v_text);
  v_new.version := p_state.head_version + 1;
  v_new.serial := p_head.serial + 1;
  v_new.source := p_source;
  v_new.actor := p_actor;
  v_new.created_at := clock_timestamp();
  v_new.rows_digest := null;

  v_rows := kilolock._write_delta_rows(p_state, v_new, v_salt, p_delta,
    case when p_delta -> 'outputs' <> '{}' then v_edit.head || '}' end);
  v_new.resource_count := v_rows.resource_count;
  v_new.created_count := v_rows.created;
  v_new.updated_count := v_rows.updated + v_rows.moved;
  v_new.deleted_count := v_rows.deleted;
  return kilolock._record_version(p_state, v_new, v_rows.moved, v_rows.managed_change, p_payload);
end;
$$;

comment on function kilolock._write_chunks(kilolock.states, kilolock.version_documents, text[], jsonb, text, text, jsonb) is
  'Write a delta into the chunks and rows that it touches.';
revoke all on function kilolock._write_chunks(kilolock.states, kilolock.version_documents, text[], jsonb, text, text, jsonb) from public;
