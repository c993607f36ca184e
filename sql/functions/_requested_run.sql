-- The apply run that an action's request names, with the states row locked and what is overdue swept.
--
-- The request may name the state too; then the run must be one of it.
--
-- Raises  KLB06  the request names no run
--         KLN11  no such run
--         KLB03, KLN01, KLN02  as _requested_state
-- Locks   the states row
create or replace function kilolock._requested_run(p_request jsonb)
  returns kilolock.apply_runs
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_id    constant text := kilolock._requested_text(p_request, 'run', true);
  v_run   kilolock.apply_runs;
  v_state kilolock.states;
begin
  if coalesce(jsonb_typeof(p_request -> 'state'), 'null') <> 'null' then
    v_state := kilolock._requested_state(p_request);
  else
    select s.* into v_state
    from kilolock.states s
    join kilolock.apply_runs r on r.state_id = s.id
    where r.id = v_id
    for update of s;
  end if;
  perform kilolock._sweep_runs(v_state.id, v_id);
  select r.* into v_run from kilolock.apply_runs r where r.id = v_id and r.state_id = v_state.id;
  if not found then
    raise exception '%', concat('there is no apply run "', v_id, '"', ' of state "' || v_state.name || '"')
      using errcode = 'KLN11', hint = 'kl status shows the apply runs of a state.';
  end if;
  return v_run;
end;
$$;

comment on function kilolock._requested_run(jsonb) is
  'The apply run that an action names, its state locked.';
revoke all on function kilolock._requested_run(jsonb) from public;
