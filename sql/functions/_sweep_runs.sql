-- End the apply runs of a state whose lease is over, and drop waiting requests that nobody asks for any more.
--
-- Called with the states row locked, by whatever depends on who holds what. The caller's own run, p_run_id, is spared
-- while it holds nothing: it asks just now, however long it had to wait for the states row.
create or replace function kilolock._sweep_runs(p_state_id bigint, p_run_id text default null)
  returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_now constant timestamptz := clock_timestamp();
  v_run kilolock.apply_runs;
begin
  for v_run in
    select r.*
    from kilolock.apply_runs r
    where r.state_id = p_state_id and r.status = 'running' and r.expires_at <= v_now
      and (r.id is distinct from p_run_id or exists (
        select from kilolock.reservation_requests q where q.apply_run_id = r.id and q.granted_at is not null))
  loop
    perform kilolock._end_run(v_run, 'aborted',
      format('its lease ended at %s and was not renewed', kilolock._show_time(v_run.expires_at)), v_run.holder);
  end loop;
  delete from kilolock.reservation_requests q
  where q.state_id = p_state_id and q.granted_at is null and q.expires_at <= v_now
    and (q.lock_id is not null or q.apply_run_id is distinct from p_run_id);
end;
$$;

comment on function kilolock._sweep_runs(bigint, text) is
  'End what has outlived its lease in a state.';
revoke all on function kilolock._sweep_runs(bigint, text) from public;
