-- POST /v1/state-engine/reservations/renew
--
-- Moves the lease of a run on by its lease_seconds, and with it what the run holds. A lease that has ended cannot be renewed.
-- A place in the queue is kept by acquire_reservations only.
--
-- p_request  {"run"}
--
-- Answers {"run", "expires_at", "fencing"}; fencing is null while it holds nothing.
--
-- Raises  KLC11  the run is over
--         KLN11  no such run
-- Locks   the states row
create or replace function kilolock.renew_reservations(p_request jsonb, p_actor text)
  returns json
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_run kilolock.apply_runs := kilolock._running_run(p_request);
begin
  return json_build_object('run', v_run.id, 'expires_at', v_run.expires_at, 'fencing', case when exists (
    select from kilolock.reservation_requests q where q.apply_run_id = v_run.id and q.granted_at is not null)
    then v_run.fencing end);
end;
$$;

comment on function kilolock.renew_reservations(jsonb, text) is
  'Renew the lease of an apply run.';
revoke all on function kilolock.renew_reservations(jsonb, text) from public;
grant execute on function kilolock.renew_reservations(jsonb, text) to kilolock_app;
