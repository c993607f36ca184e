-- The version that a state's name and a reference mean, or was its head at a moment; of the default environment where the name stands in several.
--
-- Raises  KLN01  no such state; or deleted, where the head is meant
--         KLN03  as _version_of
drop function if exists kilolock._state_id_of_version(text, bigint);
create or replace function kilolock._named_version(p_state text, p_ref text, p_at timestamptz default null)
  returns kilolock.version_documents
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
  if p_at is not null then
    return kilolock._version_at(v_state, p_at);
  end if;
  return kilolock._version_of(v_state, p_ref);
end;
$$;

comment on function kilolock._named_version(text, text, timestamptz) is
  'The version that a state''s name and a reference mean.';
revoke all on function kilolock._named_version(text, text, timestamptz) from public;
