-- POST /v1/state-engine/reservations/release
--
-- Gives up what a run holds, or its place in the queue. The run goes on, and may ask for addresses again.
--
-- p_request  {"run"}
--
-- Answers {"run", "released": how many addresses it held}.
--
-- Raises  KLC11  the run is over
--         KLN11  no such run
-- Locks   the states row
create or replace function kilolock.release_reservations(p_request jsonb, p_actor text)
  returns json
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_run      kilolock.apply_runs := kilolock._running_run(p_request);
  v_released bigint;
begin
  delete from kilolock.reservation_requests q
  where q.apply_run_id = v_run.id
  returning case when q.granted_at is null then 0 else cardinality(q.writes || q.reads) end into v_released;
  return json_build_object('run', v_run.id, 'released', coalesce(v_released, 0));
end;
$$;

comment on function kilolock.release_reservations(jsonb, text) is
  'Give up what an apply run holds or waits for.';
revoke all on function kilolock.release_reservations(jsonb, text) from public;
grant execute on function kilolock.release_reservations(jsonb, text) to kilolock_app;
