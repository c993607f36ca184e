-- DELETE /v1/states/{name}
--
-- The head goes, and with it the live rows and outputs; versions, documents and the past stay. Resources end with the
-- version that the next write will have, if there ever is one.
--
-- Raises  KLN01  no such state, or already deleted
--         KLC01, KLL01  somebody else's lock (_check_lock)
-- Locks   the states row
create or replace function kilolock.delete_state(
  p_workspace text, p_environment text, p_name text, p_lock_id text, p_actor text
)
  returns void
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_state kilolock.states := kilolock._lock_state_row(p_workspace, p_environment, p_name, p_create => false);
  v_lock  kilolock.state_locks := kilolock._check_lock(v_state, p_lock_id);
  v_salt  text;
begin
  if v_state.current_version_id is null then
    raise exception 'state "%" does not exist', p_name
      using errcode = 'KLN01', hint = 'It was never written or is deleted already; its versions, if any, are in state_versions.';
  end if;
  select s.salt into v_salt from kilolock.state_salts s where s.state_id = v_state.id;
  perform kilolock._write_rows(v_state.id, v_state.current_version_id, v_state.head_version + 1, v_state.serial,
    v_salt, '{}', null, false, clock_timestamp());
  update kilolock.states s
  set current_version_id = null, resource_count = 0, managed_count = 0, head_size = 0, updated_at = clock_timestamp()
  where s.id = v_state.id;
  insert into kilolock.events (state_id, kind, actor, payload)
  values (v_state.id, 'state_delete', coalesce(p_actor, nullif(v_lock.who, ''), 'anonymous'),
          jsonb_build_object('version', v_state.head_version, 'serial', v_state.serial));
end;
$$;

comment on function kilolock.delete_state(text, text, text, text, text) is
  'Delete the head of a state; its history stays.';
revoke all on function kilolock.delete_state(text, text, text, text, text) from public;
grant execute on function kilolock.delete_state(text, text, text, text, text) to kilolock_app;
