-- Find a state by its URL parts and lock its row until the transaction ends: the first step of every write.
--
-- Without workspace and environment the state is one of the default environment.
--
-- Raises  KLB03  the name is empty, longer than 255 bytes or has control characters
--         KLN02  no such workspace or environment
--         KLN01  no such state, unless p_create
-- Locks   the states row
create or replace function kilolock._lock_state_row(
  p_workspace text, p_environment text, p_name text, p_create boolean
)
  returns kilolock.states
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_environment_id bigint := kilolock._environment_id(p_workspace, p_environment);
  v_state kilolock.states;
begin
  if coalesce(octet_length(p_name), 0) not between 1 and 255 or p_name ~ '[\u0001-\u001f\u007f-\u009f]' then
    raise exception 'a state name has 1 to 255 bytes and no control characters'
      using errcode = 'KLB03', hint = 'Change the last part of the address in the backend block.';
  end if;

  select s.* into v_state from kilolock.states s
  where s.environment_id = v_environment_id and s.name = p_name
  for update;
  if found then
    return v_state;
  end if;

  if not p_create then
    raise exception 'state "%" does not exist', p_name
      using errcode = 'KLN01', hint = 'A state is made by its first LOCK or POST; kl list shows those there are.';
  end if;
  insert into kilolock.states (environment_id, name) values (v_environment_id, p_name)
  on conflict on constraint states_environment_id_name_key do nothing;

  select s.* into v_state from kilolock.states s
  where s.environment_id = v_environment_id and s.name = p_name
  for update;
  insert into kilolock.state_salts (state_id) values (v_state.id)
  on conflict on constraint state_salts_pkey do nothing;
  return v_state;
end;
$$;

comment on function kilolock._lock_state_row(text, text, text, boolean) is
  'The states row of a URL, locked, made first where p_create says so.';
revoke all on function kilolock._lock_state_row(text, text, text, boolean) from public;
