-- The apply run that an action's request names, which must still be running; its lease begins anew.
--
-- Raises  KLC11  the run is over
--         and as _requested_run
-- Locks   the states row
create or replace function kilolock._running_run(p_request jsonb)
  returns kilolock.apply_runs
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_run kilolock.apply_runs := kilolock._requested_run(p_request);
begin
  if v_run.status <> 'running' then
    raise exception '%', concat('apply run "', v_run.id, '" is ', v_run.status, ': ' || v_run.message)
      using errcode = 'KLC11', hint = 'It holds nothing any more. Begin another run, and reserve again what is still to be written.';
  end if;
  update kilolock.apply_runs r
  set expires_at = clock_timestamp() + make_interval(secs => r.lease_seconds)
  where r.id = v_run.id
  returning r.* into v_run;
  return v_run;
end;
$$;

comment on function kilolock._running_run(jsonb) is
  'The running apply run that an action names, its lease renewed.';
revoke all on function kilolock._running_run(jsonb) from public;
