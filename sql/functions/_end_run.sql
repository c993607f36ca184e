-- End an apply run: its reservations and its place in the queue go with it.
--
-- Called with the states row locked, for a run that is running.
create or replace function kilolock._end_run(p_run kilolock.apply_runs, p_status text, p_message text, p_actor text)
  returns kilolock.apply_runs
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_run kilolock.apply_runs;
begin
  delete from kilolock.reservation_requests q where q.apply_run_id = p_run.id;
  update kilolock.apply_runs r
  set status = p_status, message = p_message, finished_at = clock_timestamp()
  where r.id = p_run.id
  returning r.* into v_run;
  insert into kilolock.events (state_id, kind, actor, payload)
  values (p_run.state_id, case when p_status = 'aborted' then 'run_abort' else 'run_finish' end, p_actor,
          jsonb_strip_nulls(jsonb_build_object('run', p_run.id, 'status', p_status, 'message', p_message,
            'holder', p_run.holder, 'committed_version', p_run.committed_version)));
  return v_run;
end;
$$;

comment on function kilolock._end_run(kilolock.apply_runs, text, text, text) is
  'End an apply run with what it holds and waits for.';
revoke all on function kilolock._end_run(kilolock.apply_runs, text, text, text) from public;
