-- The head's id of a state by its name; of the default environment where the name stands in several.
--
-- Raises  KLN01  no such state, or deleted
create or replace function kilolock._current_version_id(p_state text)
  returns bigint
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_id bigint;
begin
  select s.current_version_id into v_id
  from kilolock.states s
  where s.name = p_state and s.current_version_id is not null
  order by s.environment_id
  limit 1;
  if not found then
    raise exception 'state "%" does not exist', p_state
      using errcode = 'KLN01', hint = 'kl list shows the states there are.';
  end if;
  return v_id;
end;
$$;

comment on function kilolock._current_version_id(text) is
  'The id of a states head by the states name.';
revoke all on function kilolock._current_version_id(text) from public;
