-- The version that a state URL and a reference mean; a null reference is the head.
--
-- Raises  KLN01  never written; or deleted, where the head is meant
--         KLN02  no such workspace or environment
--         KLN03  as _version_of
drop function if exists kilolock._find_version(text, text, text, bigint);
create or replace function kilolock._find_version(
  p_workspace text, p_environment text, p_name text, p_ref text
)
  returns kilolock.version_documents
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_state kilolock.states;
begin
  select s.* into v_state
  from kilolock.states s
  where s.environment_id = kilolock._environment_id(p_workspace, p_environment) and s.name = p_name;
  if not found then
    raise exception 'state "%" does not exist', p_name
      using errcode = 'KLN01', hint = 'A state is made by its first LOCK or POST; kl list shows those there are.';
  end if;
  return kilolock._version_of(v_state, p_ref);
end;
$$;

comment on function kilolock._find_version(text, text, text, text) is
  'The version that a state URL and a reference mean.';
revoke all on function kilolock._find_version(text, text, text, text) from public;
