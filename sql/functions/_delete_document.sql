-- Delete the head of a state, called with the states row locked and the caller's right to do so checked.
--
-- The live rows and outputs go with it; versions, documents and the past stay. Resources end with the version that the
-- next write will have, if there ever is one.
--
-- p_at  when it was deleted, where that was earlier
--
-- Raises  KLN01  no head to delete
create or replace function kilolock._delete_document(p_state kilolock.states, p_actor text, p_at timestamptz)
  returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_salt text;
begin
  if p_state.current_version_id is null then
    raise exception 'state "%" does not exist', p_state.name
      using errcode = 'KLN01', hint = 'It was never written or is deleted already; its versions, if any, are in state_versions.';
  end if;
  select s.salt into v_salt from kilolock.state_salts s where s.state_id = p_state.id;
  perform kilolock._write_rows(p_state.id, p_state.current_version_id, p_state.head_version + 1, p_state.serial,
    v_salt, '{}', null, 0, false, p_at);
  update kilolock.states s
  set current_version_id = null, resource_count = 0, managed_count = 0, head_size = 0, updated_at = p_at
  where s.id = p_state.id;
  insert into kilolock.events (state_id, kind, actor, created_at, payload)
  values (p_state.id, 'state_delete', p_actor, p_at,
          jsonb_build_object('version', p_state.head_version, 'serial', p_state.serial));
end;
$$;

comment on function kilolock._delete_document(kilolock.states, text, timestamptz) is
  'Delete the head of a state; its history stays.';
revoke all on function kilolock._delete_document(kilolock.states, text, timestamptz) from public;
