-- The state that has this version, by name; of the default environment where the name stands in several.
--
-- Raises  KLN01  no such state
--         KLN03  no such version of it, or it was pruned
create or replace function kilolock._state_id_of_version(p_state text, p_version bigint)
  returns bigint
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_state kilolock.states;
begin
  select s.* into v_state from kilolock.states s where s.name = p_state order by s.environment_id limit 1;
  if not found then
    raise exception 'state "%" does not exist', p_state
      using errcode = 'KLN01', hint = 'kl list shows the states there are.';
  end if;
  return (kilolock._version_of(v_state, p_version::text)).state_id;
end;
$$;

comment on function kilolock._state_id_of_version(text, bigint) is
  'The id of the state that has a version, by its name.';
revoke all on function kilolock._state_id_of_version(text, bigint) from public;
