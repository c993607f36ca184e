-- The version that a URL means: the head, or the one asked for.
--
-- Raises  KLN01  never written or deleted
--         KLN03  no such version
create or replace function kilolock._find_version(
  p_workspace text, p_environment text, p_name text, p_version bigint
)
  returns kilolock.version_documents
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_document kilolock.version_documents;
begin
  select d.* into v_document
  from kilolock.states s
  join kilolock.version_documents d on d.state_id = s.id
    and case when p_version is null then d.id = s.current_version_id else d.version = p_version end
  where s.environment_id = kilolock._environment_id(p_workspace, p_environment) and s.name = p_name;
  if not found and p_version is null then
    raise exception 'state "%" does not exist', p_name
      using errcode = 'KLN01', hint = 'A state is made by its first LOCK or POST; kl list shows those there are.';
  elsif not found then
    raise exception 'state "%" has no version %', p_name, p_version
      using errcode = 'KLN03', hint = 'The table state_versions lists the versions of every state.';
  end if;
  return v_document;
end;
$$;

comment on function kilolock._find_version(text, text, text, bigint) is
  'The version that a state URL means.';
revoke all on function kilolock._find_version(text, text, text, bigint) from public;
