-- POST /v1/state-engine/apply-runs/finish
--
-- Ends a run, and with it everything that it holds. Saying it again is the retry of a client that missed the answer.
--
-- p_request  {"run", "status": committed | failed, "message"}
--
-- Answers {"run", "status", "finished_at", "committed_version"}.
--
-- Raises  KLB06  another status
--         KLC11  the run is over, and ended in another way
--         KLN11  no such run
-- Locks   the states row
create or replace function kilolock.finish_apply_run(p_request jsonb, p_actor text)
  returns json
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_status  constant text := kilolock._requested_text(p_request, 'status', true);
  v_message constant text := left(kilolock._requested_text(p_request, 'message'), 4096);
  v_run     kilolock.apply_runs;
begin
  if v_status not in ('committed', 'failed') then
    raise exception 'an apply run cannot finish as "%"', v_status
      using errcode = 'KLB06', hint = 'It is committed or failed; apply-runs/abort ends it otherwise.';
  end if;
  v_run := kilolock._requested_run(p_request);
  if v_run.status <> v_status then
    v_run := kilolock._end_run(kilolock._running_run(p_request), v_status, v_message,
      kilolock._run_actor(v_run, p_request, p_actor));
  end if;
  return json_build_object('run', v_run.id, 'status', v_run.status, 'finished_at', v_run.finished_at,
    'committed_version', v_run.committed_version);
end;
$$;

comment on function kilolock.finish_apply_run(jsonb, text) is
  'End an apply run as committed or failed.';
revoke all on function kilolock.finish_apply_run(jsonb, text) from public;
grant execute on function kilolock.finish_apply_run(jsonb, text) to kilolock_app;
