-- GET /v1/state-engine/apply-runs/{run}/status, POST /v1/state-engine/apply-runs/status
--
-- A run as it stands after everything overdue was swept: what it holds, what it waits for, what it wrote.
--
-- p_request  {"run"}
--
-- Answers the columns of apply_runs, "state", "reservations": null or {"since", "write", "read": counts}, "waiting": null or
-- {"since", "expires_at", "write", "read"}, and "commits": [{"number", "version", "committed_at"}, …].
--
-- Raises  KLN11  no such run
-- Locks   the states row
create or replace function kilolock.read_apply_run(p_request jsonb, p_actor text)
  returns json
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_run  kilolock.apply_runs := kilolock._requested_run(p_request);
  v_held record;
begin
  select q.granted_at, q.waiting_since, q.expires_at, cardinality(q.writes) as writes, cardinality(q.reads) as reads
  into v_held
  from kilolock.reservation_requests q where q.apply_run_id = v_run.id;
  return json_build_object('run', v_run.id, 'state', (select s.name from kilolock.states s where s.id = v_run.state_id),
    'status', v_run.status, 'holder', v_run.holder, 'host', v_run.host, 'path', v_run.path, 'summary', v_run.summary,
    'base_version', v_run.base_version, 'committed_version', v_run.committed_version, 'fencing', v_run.fencing,
    'lease_seconds', v_run.lease_seconds, 'started_at', v_run.started_at, 'expires_at', v_run.expires_at,
    'finished_at', v_run.finished_at, 'message', v_run.message,
    'reservations', case when v_held.granted_at is not null then json_build_object('since', v_held.granted_at,
      'write', v_held.writes, 'read', v_held.reads) end,
    'waiting', case when v_held.granted_at is null and v_held.waiting_since is not null then json_build_object(
      'since', v_held.waiting_since, 'expires_at', v_held.expires_at, 'write', v_held.writes, 'read', v_held.reads) end,
    'commits', (
      select coalesce(json_agg(json_build_object('number', c.number, 'version', c.version, 'committed_at', c.committed_at)
        order by c.number), '[]')
      from kilolock.apply_run_commits c where c.apply_run_id = v_run.id));
end;
$$;

comment on function kilolock.read_apply_run(jsonb, text) is
  'How an apply run stands.';
revoke all on function kilolock.read_apply_run(jsonb, text) from public;
grant execute on function kilolock.read_apply_run(jsonb, text) to kilolock_app;
