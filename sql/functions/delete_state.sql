-- DELETE /v1/states/{name}
--
-- Checks the caller's lock; _delete_document does it.
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
begin
  perform kilolock._delete_document(v_state, coalesce(p_actor, nullif(v_lock.who, ''), 'anonymous'), clock_timestamp());
end;
$$;

comment on function kilolock.delete_state(text, text, text, text, text) is
  'Delete the head of a state; its history stays.';
revoke all on function kilolock.delete_state(text, text, text, text, text) from public;
grant execute on function kilolock.delete_state(text, text, text, text, text) to kilolock_app;
