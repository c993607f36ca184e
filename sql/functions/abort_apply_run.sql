-- POST /v1/state-engine/apply-runs/abort: kl apply abort RUN
--
-- Takes everything from a run, whoever's it is: its commits are refused from now on. A run that is over stays as it is.
--
-- p_request  {"run", "message"}
--
-- Answers {"run", "status", "finished_at", "committed_version", "aborted": whether it was this call that ended it}.
--
-- Raises  KLN11  no such run
-- Locks   the states row
create or replace function kilolock.abort_apply_run(p_request jsonb, p_actor text)
  returns json
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_actor   constant text := kilolock._actor(p_request, p_actor);
  v_message constant text := left(kilolock._requested_text(p_request, 'message'), 4096);
  v_run     kilolock.apply_runs := kilolock._requested_run(p_request);
  v_running constant boolean := v_run.status = 'running';
begin
  if v_running then
    v_run := kilolock._end_run(v_run, 'aborted', concat('aborted by ', v_actor, ': ' || v_message), v_actor);
  end if;
  return json_build_object('run', v_run.id, 'status', v_run.status, 'finished_at', v_run.finished_at,
    'committed_version', v_run.committed_version, 'aborted', v_running);
end;
$$;

comment on function kilolock.abort_apply_run(jsonb, text) is
  'End an apply run from outside.';
revoke all on function kilolock.abort_apply_run(jsonb, text) from public;
grant execute on function kilolock.abort_apply_run(jsonb, text) to kilolock_app;
