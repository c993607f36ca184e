-- Make the next version of a state out of its head and a few changes: what every writer of parts calls
--
-- The head's document is edited as text: a put instance, output or check result takes its place in Terraform's order and
-- layout, the serial becomes the next one, and every other byte stays. Called with the states row locked and the caller's
-- right to write checked.
--
-- p_delta  {"put": [{"module": "module.x[\"a\"]", "mode": "managed", "type", "name", "provider", "instance": JSON text}],
--          "remove": [{"address", "deposed"}],
--          "outputs": {"put": {name: JSON text}, "remove": [name]},
--          "check_results": {"put": [JSON text], "remove": [{"object_kind", "config_addr"}]},
--          "moved": [{"from", "to": addresses, "deposed"}]: what was removed at one address and put at another and is the same
--          resource, whose row stays}
--          All parts are optional. What stands as JSON text keeps its numbers and escapes byte for byte, in Terraform's
--          layout. An instance says itself which it is, by its index_key and deposed. An output or check result to remove
--          that is not there is gone already; a resource that is not there is an error.
--
-- Answers as _write_document.
--
-- Raises  KLB20  the delta is not of that form
--         KLN01  the state has no head
--         KLN04  an address to remove is not in the state
--         KLC20  the state is encrypted
--         and as _write_document
create or replace function kilolock._write_delta(
  p_state kilolock.states, p_delta jsonb, p_source text, p_actor text, p_payload jsonb default '{}'
)
  returns json
  language plpgsql
  set search_path = pg_catalog, pg_temp
  set work_mem = '256MB'
  set jit = off
as $$
declare
  v_head   kilolock.version_documents;
  v_delta  jsonb := kilolock._check_delta(p_state, p_delta);
  v_parts  text[];
  v_text   text;
  v_answer json;
begin
  select d.* into v_head from kilolock.version_documents d
  where d.state_id = p_state.id and d.id = p_state.current_version_id;
  if not found then
    raise exception 'state "%" does not exist', p_state.name
      using errcode = 'KLN01', hint = 'It was never written or is deleted; kl rollback brings a deleted state back.';
  elsif v_head.encrypted then
    raise exception 'state "%" is encrypted, so that its resources cannot be edited here', p_state.name
      using errcode = 'KLC20', hint = 'Only OpenTofu with the key can change it: tofu state pull, tofu state push.';
  elsif v_head.serial >= 18446744073709551615 then
    raise exception 'state "%" has the highest serial there is', p_state.name
      using errcode = 'KLC03', hint = 'Push it with a lower serial: terraform state push -force.';
  end if;

  -- Joined with nothing a text is unpacked, once for all that follows.
  v_parts := array(
    select c.data || ''
    from unnest(v_head.chunk_ids) with ordinality i(id, n)
    join kilolock.document_chunks c on c.id = i.id
    order by i.n);
  if v_head.is_laid_out then
    begin
      v_answer := kilolock._write_chunks(p_state, v_head, v_parts, v_delta, p_source, p_actor, p_payload);
    exception
      when sqlstate 'KLX01' or sqlstate 'KLX03' or untranslatable_character or invalid_text_representation
          or numeric_value_out_of_range or invalid_parameter_value or statement_too_complex or program_limit_exceeded then
        v_answer := null;
    end;
  end if;
  if v_answer is null then
    v_text := kilolock._edit_document(array_to_string(v_parts, ''), v_head.serial + 1, v_delta -> 'put', v_delta -> 'remove', v_delta);
    v_answer := kilolock._write_document(p_state, v_text, octet_length(v_text), md5(v_text), p_source, p_actor,
      p_payload => p_payload, p_moves => v_delta -> 'moved');
  end if;
  return v_answer;
end;
$$;

comment on function kilolock._write_delta(kilolock.states, jsonb, text, text, jsonb) is
  'Make the next version of a state out of its head and a few changes.';
revoke all on function kilolock._write_delta(kilolock.states, jsonb, text, text, jsonb) from public;
