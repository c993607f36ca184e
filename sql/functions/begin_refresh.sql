-- POST /v1/refresh-runs/begin
--
-- Takes the Terraform lock of a state and opens a run, so that refreshes and applies exclude each other. The lock ID is
-- drawn by the client and names the run: the same again answers the same run.
--
-- p_request  {"state", "workspace", "environment", "who", "lock_id"}
-- Answers    {"run", "version"}: the version is the head that is to be refreshed
--
-- Raises  KLB05  the request names no state
--         KLB06  lock_id is missing or too long
--         KLN01  never written or deleted
--         KLC07  encrypted or too large (_check_refreshable)
--         KLL01, KLL02  locked by another (acquire_lock)
-- Locks   the states row
create or replace function kilolock.begin_refresh(p_request jsonb, p_actor text)
  returns json
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_actor   constant text := kilolock._actor(p_request, p_actor);
  v_lock_id constant text := kilolock._requested_lock_id(p_request);
  v_name    constant text := p_request ->> 'state';
  v_head    kilolock.version_documents;
  v_state   kilolock.states;
  v_run     bigint;
begin
  if v_name is null then
    perform kilolock._requested_state(p_request);
  end if;
  -- A lock makes the state that it is asked for; a refresh must not.
  v_head := kilolock._find_version(p_request ->> 'workspace', p_request ->> 'environment', v_name, null);
  perform kilolock.acquire_lock(p_request ->> 'workspace', p_request ->> 'environment', v_name,
    convert_to(json_build_object('ID', v_lock_id, 'Operation', 'refresh', 'Info', 'kl refresh', 'Who', v_actor, 'Version', '',
      'Created', to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), 'Path', v_name)::text, 'UTF8'),
    p_actor);
  v_state := kilolock._requested_state(p_request);
  v_head := kilolock._find_version(p_request ->> 'workspace', p_request ->> 'environment', v_name, null);
  perform kilolock._check_refreshable(v_name, v_head);

  -- Who holds the lock now knows that no other run can be going on.
  update kilolock.refresh_runs u
  set status = 'failed', message = 'it lost its lock', finished_at = clock_timestamp()
  where u.state_id = v_state.id and u.status = 'running' and u.lock_id <> v_lock_id;
  insert into kilolock.refresh_runs (state_id, lock_id, who, base_version)
  values (v_state.id, v_lock_id, v_actor, v_state.head_version)
  on conflict on constraint refresh_runs_state_id_lock_id_key do nothing;
  select u.id into v_run from kilolock.refresh_runs u where u.state_id = v_state.id and u.lock_id = v_lock_id;
  return json_build_object('run', v_run, 'version', v_head.version);
end;
$$;

comment on function kilolock.begin_refresh(jsonb, text) is
  'Take the lock of a state for a refresh, and open its run.';
revoke all on function kilolock.begin_refresh(jsonb, text) from public;
grant execute on function kilolock.begin_refresh(jsonb, text) to kilolock_app;
