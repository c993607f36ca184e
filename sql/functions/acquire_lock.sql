-- The Terraform lock of a state for a function of ours that cannot go on without it; LOCK over HTTP is request_lock.
--
-- Raises  KLL11  apply runs reserve addresses of the state, or wait for some; DETAIL is LockInfo that says who
--         and as request_lock
-- Locks   the states row
create or replace function kilolock.acquire_lock(
  p_workspace text, p_environment text, p_name text, p_body bytea, p_actor text
)
  returns void
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_holder constant text := kilolock.request_lock(p_workspace, p_environment, p_name, p_body, p_actor);
begin
  if v_holder is not null then
    raise exception 'state "%" cannot be locked: "%" of % is before you', p_name, v_holder::json ->> 'ID', v_holder::json ->> 'Who'
      using errcode = 'KLL11', detail = v_holder, hint = format('It %s', v_holder::json ->> 'Info');
  end if;
end;
$$;

comment on function kilolock.acquire_lock(text, text, text, bytea, text) is
  'Take the Terraform lock of a state; an error with the holder''s LockInfo in DETAIL when it cannot be had.';
revoke all on function kilolock.acquire_lock(text, text, text, bytea, text) from public;
grant execute on function kilolock.acquire_lock(text, text, text, bytea, text) to kilolock_app;
