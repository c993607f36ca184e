-- POST /v1/rollback: kl rollback
--
-- Writes an older version again as the next one, with a serial above all that the state ever had, so that the next plain
-- terraform apply is taken. All other bytes are those of the old version. A deleted state comes back in the same way.
-- The serial of an encrypted document is part of what is encrypted, so that one goes back unchanged.
--
-- p_request  {"state", "version": a reference, "apply": false only tells what would change, "base": the version that the
--            caller takes for the head, "lock_id"}
-- Answers    {"state", "changed", "applied", "from", "to": versions, "version", "serial": what the new version has or would
--            have, "other_lineage", "changes": [{"change", "address", "deposed", "type", "mode", "from_address"}]};
--            not changed means that the head is that version, or has the same content
--
-- Raises  KLB05, KLB06  the request is malformed
--         KLN01, KLN03  no such state or version (_version_of)
--         KLC01, KLL01  somebody else's lock (_check_lock)
--         KLC21  the state moved on since the caller looked (_check_base)
--         and as _write_document
-- Locks   the states row
create or replace function kilolock.rollback_state(p_request jsonb, p_actor text)
  returns json
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_ref     constant text := kilolock._requested_text(p_request, 'version', true);
  v_base    constant text := kilolock._requested_text(p_request, 'base');
  v_lock_id constant text := kilolock._requested_text(p_request, 'lock_id');
  v_apply   constant boolean := kilolock._requested_flag(p_request, 'apply');
  v_state   kilolock.states := kilolock._requested_state(p_request);
  v_head    kilolock.version_documents;
  v_target  kilolock.version_documents := kilolock._version_of(v_state, v_ref);
  v_serial  numeric;
  v_text    text;
  v_changed boolean;
  v_changes json;
  v_result  json;
begin
  select d.* into v_head from kilolock.version_documents d
  where d.state_id = v_state.id and d.id = v_state.current_version_id;
  perform kilolock._check_base(v_state, v_base);
  if v_apply then
    perform kilolock._check_lock(v_state, v_lock_id);
  end if;

  select case when v_target.encrypted then v_target.serial else max(d.serial) + 1 end into v_serial
  from kilolock.version_documents d
  where d.state_id = v_state.id;
  if v_serial > 18446744073709551615 then
    raise exception 'state "%" has had the highest serial there is', v_state.name
      using errcode = 'KLC03', hint = 'Export the version, lower its serial and push it: kl export, terraform state push -force.';
  end if;

  v_changed := v_head.version is distinct from v_target.version;
  if v_changed then
    v_text := kilolock._read_document(v_target);
    v_changed := v_head.version is null
      or md5(case when v_target.encrypted then v_text else kilolock._set_serial(v_text, v_head.serial) end) <> v_head.raw_md5;
  end if;
  if v_changed then
    select coalesce(json_agg(json_build_object('change', c.change, 'address', c.address, 'deposed', c.deposed_key,
             'type', c.type, 'mode', c.mode, 'from_address', c.from_address)), '[]')
    into v_changes
    from kilolock._rollback_changes(v_state, v_target.version) c;
  end if;
  if v_changed and v_apply then
    if not v_target.encrypted then
      v_text := kilolock._set_serial(v_text, v_serial);
    end if;
    v_result := kilolock._write_document(v_state, v_text, octet_length(v_text), md5(v_text), 'rollback',
      kilolock._actor(p_request, p_actor), v_lock_id, p_force => true,
      p_payload => jsonb_build_object('rolled_back_to', v_target.version));
  end if;
  return json_build_object('state', v_state.name, 'changed', v_changed, 'applied', v_changed and v_apply,
    'from', kilolock._describe_version(v_head), 'to', kilolock._describe_version(v_target),
    'version', case when v_changed then v_state.head_version + 1 else v_head.version end,
    'serial', case when v_changed then v_serial else v_head.serial end,
    'other_lineage', v_head.lineage <> v_target.lineage, 'changes', coalesce(v_changes, '[]'));
end;
$$;

comment on function kilolock.rollback_state(jsonb, text) is
  'Write an older version of a state again as the next one, or tell what that would change.';
revoke all on function kilolock.rollback_state(jsonb, text) from public;
grant execute on function kilolock.rollback_state(jsonb, text) to kilolock_app;
