-- POST /v1/refresh-runs/finish
--
-- Ends a run, and releases its lock with it: with the refreshed document, with why there is none, or with neither where
-- nothing drifted. A document is stored as a version of source refresh, but only if something in it drifted. A run that
-- has ended stays as it is, so that an answer that was lost can be asked for again.
--
-- p_request  {"state", "workspace", "environment", "who", "lock_id", "document": text, "failed": text}
-- Answers    {"run", "status", "version", "drifted", "changes": JSON text as of _write_refresh}
--
-- Raises  KLB06  a field of the wrong type
--         KLB01  the document is no state
--         KLN01  no such state
--         KLN07  no run with this lock ID
--         KLC01  the lock was taken away meanwhile (_check_lock): nothing is stored
-- Locks   the states row
create or replace function kilolock.finish_refresh(p_request jsonb, p_actor text)
  returns json
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_actor   constant text := kilolock._actor(p_request, p_actor);
  v_lock_id constant text := kilolock._requested_lock_id(p_request);
  v_failed  constant text := left(p_request ->> 'failed', 2000);
  v_state   kilolock.states;
  v_run     kilolock.refresh_runs;
  v_result  record;
begin
  if coalesce(jsonb_typeof(p_request -> 'document'), 'null') not in ('string', 'null')
    or coalesce(jsonb_typeof(p_request -> 'failed'), 'null') not in ('string', 'null') then
    raise exception 'document or failed is no text'
      using errcode = 'KLB06', hint = 'Send the refreshed state file as the text "document", or the reason as "failed".';
  end if;
  v_state := kilolock._requested_state(p_request);
  select u.* into v_run from kilolock.refresh_runs u where u.state_id = v_state.id and u.lock_id = v_lock_id;
  if not found then
    raise exception 'state "%" has no refresh with lock ID "%"', v_state.name, v_lock_id
      using errcode = 'KLN07', hint = 'Begin it first. The table refresh_runs lists those there were.';
  end if;

  select null::bigint as version, 0 as drifted_count, '[]' as changes into v_result;
  if v_run.status = 'running' then
    if v_failed is null then
      perform kilolock._check_lock(v_state, v_lock_id);
      if p_request ->> 'document' is not null then
        select w.version, w.drifted_count, w.changes into v_result
        from kilolock._write_refresh(v_state, p_request ->> 'document', v_actor, v_lock_id, true,
          jsonb_build_object('refresh_run', v_run.id)) w;
      end if;
    end if;
    update kilolock.refresh_runs u
    set status = case when v_failed is not null then 'failed' when v_result.version is null then 'clean' else 'drifted' end,
        version = v_result.version, drifted_count = v_result.drifted_count, message = v_failed, finished_at = clock_timestamp()
    where u.id = v_run.id
    returning u.* into v_run;
    if exists (select from kilolock.state_locks l where l.state_id = v_state.id and l.lock_id = v_lock_id) then
      perform kilolock.release_lock(p_request ->> 'workspace', p_request ->> 'environment', v_state.name, v_lock_id, null, p_actor);
    end if;
  end if;
  return json_build_object('run', v_run.id, 'status', v_run.status, 'version', v_run.version,
    'drifted', v_run.drifted_count, 'changes', v_result.changes);
end;
$$;

comment on function kilolock.finish_refresh(jsonb, text) is
  'End a refresh: store what drifted, if anything did, and release the lock.';
revoke all on function kilolock.finish_refresh(jsonb, text) from public;
grant execute on function kilolock.finish_refresh(jsonb, text) to kilolock_app;
