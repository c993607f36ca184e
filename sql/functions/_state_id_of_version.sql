-- The state that has this version, by name; of the default environment where the name stands in several.
--
-- Raises  KLN01  no such state
--         KLN03  no such version of it
create or replace function kilolock._state_id_of_version(p_state text, p_version bigint)
  returns bigint
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_state_id bigint;
begin
  select s.id into v_state_id from kilolock.states s where s.name = p_state order by s.environment_id limit 1;
  if not found then
    raise exception 'state "%" does not exist', p_state
      using errcode = 'KLN01', hint = 'kl list shows the states there are.';
  end if;
  if not exists (select from kilolock.version_documents d where d.state_id = v_state_id and d.version = p_version) then
    raise exception 'state "%" has no version %', p_state, p_version
      using errcode = 'KLN03', hint = 'The table state_versions lists the versions of every state.';
  end if;
  return v_state_id;
end;
$$;

comment on function kilolock._state_id_of_version(text, bigint) is
  'The id of the state that has a version, by its name.';
revoke all on function kilolock._state_id_of_version(text, bigint) from public;
