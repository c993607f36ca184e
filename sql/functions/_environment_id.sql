-- The environment that a URL names; the default one for the short URL form.
--
-- Raises  KLN02  no such workspace or environment
create or replace function kilolock._environment_id(p_workspace text, p_environment text)
  returns bigint
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_id bigint;
begin
  select e.id into v_id
  from kilolock.environments e
  join kilolock.workspaces w on w.id = e.workspace_id
  where w.public_id = coalesce(p_workspace, 'ws_default')
    and e.public_id = coalesce(p_environment, 'env_default');
  if not found then
    raise exception 'workspace "%" has no environment "%"', p_workspace, p_environment
      using errcode = 'KLN02', hint = 'The address is /v1/states/{workspace_id}/{env_public_id}/{name}.';
  end if;
  return v_id;
end;
$$;

comment on function kilolock._environment_id(text, text) is
  'The id of the environment that a state URL names.';
revoke all on function kilolock._environment_id(text, text) from public;
