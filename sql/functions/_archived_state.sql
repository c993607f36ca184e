-- The state that is to be archived; deleted ones too, since their history is still there.
--
-- Raises  KLN01  no such state, or never written
--         KLN02  no such workspace or environment
create or replace function kilolock._archived_state(p_workspace text, p_environment text, p_name text)
  returns kilolock.states
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_state kilolock.states;
begin
  select s.* into v_state
  from kilolock.states s
  where s.environment_id = kilolock._environment_id(p_workspace, p_environment) and s.name = p_name and s.head_version > 0;
  if not found then
    raise exception 'state "%" was never written', p_name
      using errcode = 'KLN01', hint = 'kl list shows the states there are.';
  end if;
  return v_state;
end;
$$;

comment on function kilolock._archived_state(text, text, text) is
  'The state that is to be archived.';
revoke all on function kilolock._archived_state(text, text, text) from public;
