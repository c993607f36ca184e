-- POST /v1/state-engine/apply-runs/begin
--
-- Registers an apply run, whose lease its client then has to renew. It holds nothing yet. A state that is not there yet is
-- made: its first apply may be such a run.
--
-- p_request  {"state", "base_version", "summary": {…}, "host", "path", "lease_seconds"}
--
-- Answers {"run", "expires_at", "lease_seconds", "base_version", "head_version"}.
--
-- Raises  KLB06  a field is wrong
--         KLN03  the state has no such base_version, or it was pruned
--         KLB05, KLB03, KLN02  as _requested_state
-- Locks   the states row
create or replace function kilolock.begin_apply_run(p_request jsonb, p_actor text)
  returns json
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_state   kilolock.states := kilolock._requested_state(p_request, p_create => true);
  v_actor   constant text := kilolock._actor(p_request, p_actor);
  v_limits  record;
  v_run     kilolock.apply_runs;
  v_summary jsonb := coalesce(nullif(p_request -> 'summary', 'null'), '{}');
begin
  select l.* into v_limits from kilolock._reservation_limits() l;
  if jsonb_typeof(v_summary) <> 'object' or octet_length(v_summary::text) > v_limits.summary_bytes then
    raise exception 'the request''s "summary" is no object of up to % bytes', v_limits.summary_bytes
      using errcode = 'KLB06', hint = 'It is meant for people: counts of what the plan will do.';
  end if;
  v_run.base_version := kilolock._requested_integer(p_request, 'base_version', 0, 999999999999999999);
  v_run.lease_seconds := kilolock._requested_integer(p_request, 'lease_seconds', v_limits.min_lease_seconds,
    v_limits.max_lease_seconds, v_limits.lease_seconds);
  if v_run.base_version > 0 then
    perform kilolock._version_of(v_state, v_run.base_version::text);
  end if;
  perform kilolock._sweep_runs(v_state.id);

  insert into kilolock.apply_runs (state_id, holder, host, path, summary, base_version, lease_seconds, expires_at)
  values (v_state.id, coalesce(nullif(left(kilolock._requested_text(p_request, 'who'), 255), ''), v_actor),
          coalesce(left(kilolock._requested_text(p_request, 'host'), 255), ''),
          coalesce(left(kilolock._requested_text(p_request, 'path'), 4096), ''), v_summary,
          v_run.base_version, v_run.lease_seconds, clock_timestamp() + make_interval(secs => v_run.lease_seconds))
  returning * into v_run;
  insert into kilolock.events (state_id, kind, actor, payload)
  values (v_state.id, 'run_begin', v_actor,
          jsonb_build_object('run', v_run.id, 'holder', v_run.holder, 'base_version', v_run.base_version));
  return json_build_object('run', v_run.id, 'expires_at', v_run.expires_at, 'lease_seconds', v_run.lease_seconds,
    'base_version', v_run.base_version, 'head_version', kilolock._head_version(v_state));
end;
$$;

comment on function kilolock.begin_apply_run(jsonb, text) is
  'Register an apply run on a state.';
revoke all on function kilolock.begin_apply_run(jsonb, text) from public;
grant execute on function kilolock.begin_apply_run(jsonb, text) to kilolock_app;
