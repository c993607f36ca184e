-- The states row that an action's request names, locked: what every action on one state begins with.
--
-- p_request  {"state": name, "workspace": id, "environment": id}; without the last two the default environment
--
-- Raises  KLB05  the request names no state
--         KLB03, KLN01, KLN02  as _lock_state_row
-- Locks   the states row
create or replace function kilolock._requested_state(p_request jsonb, p_create boolean default false)
  returns kilolock.states
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
begin
  if jsonb_typeof(p_request -> 'state') is distinct from 'string' then
    raise exception 'the request names no state' using errcode = 'KLB05', hint = 'Send JSON such as {"state": "prod"}.';
  end if;
  return kilolock._lock_state_row(p_request ->> 'workspace', p_request ->> 'environment', p_request ->> 'state', p_create);
end;
$$;

comment on function kilolock._requested_state(jsonb, boolean) is
  'The states row that an action names, locked.';
revoke all on function kilolock._requested_state(jsonb, boolean) from public;
