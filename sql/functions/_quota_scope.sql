-- What a request sets a quota on, by its public names and ids; of the ids one is not null
--
-- p_request  {"scope": "state", "state": name, "workspace": id, "environment": id}; or scope "environment" or "workspace"
--            and no more than names it. An environment may be named by its label where its workspace has but one of it.
--
-- Raises  KLB05, KLB03, KLN01, KLN02  as _requested_state, for a state
--         KLB06  no scope, or a label that several environments have
--         KLN02  no such workspace or environment
-- Locks   the states row, for a state
create or replace function kilolock._quota_scope(
  p_request jsonb,
  out scope text, out name text, out workspace text, out environment text, out state text,
  out workspace_id bigint, out environment_id bigint, out state_id bigint
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_workspace constant text := coalesce(p_request ->> 'workspace', 'ws_default');
  v_state     kilolock.states;
  v_found     bigint;
begin
  scope := p_request ->> 'scope';
  case scope
    when 'state' then
      v_state := kilolock._requested_state(p_request);
      state_id := v_state.id;
      state := v_state.name;
      select e.public_id, w.public_id into environment, workspace
      from kilolock.environments e
      join kilolock.workspaces w on w.id = e.workspace_id
      where e.id = v_state.environment_id;
      name := state;
    when 'environment' then
      select e.id, e.public_id, w.public_id, count(*) over () into environment_id, environment, workspace, v_found
      from kilolock.environments e
      join kilolock.workspaces w on w.id = e.workspace_id
      where e.public_id = coalesce(p_request ->> 'environment', 'env_default')
        or e.name = p_request ->> 'environment' and w.public_id = v_workspace
      order by e.public_id = coalesce(p_request ->> 'environment', 'env_default') desc
      limit 1;
      if not found then
        raise exception 'workspace "%" has no environment "%"', v_workspace, p_request ->> 'environment'
          using errcode = 'KLN02', hint = 'The table environments lists them.';
      elsif v_found > 1 and environment <> coalesce(p_request ->> 'environment', 'env_default') then
        raise exception 'workspace "%" has several environments "%"', v_workspace, p_request ->> 'environment'
          using errcode = 'KLB06', hint = 'Give the id: the public_id in the table environments.';
      end if;
      name := environment;
    when 'workspace' then
      select w.id, w.public_id into workspace_id, workspace from kilolock.workspaces w where w.public_id = v_workspace;
      if not found then
        raise exception 'there is no workspace "%"', v_workspace
          using errcode = 'KLN02', hint = 'The table workspaces lists them.';
      end if;
      name := workspace;
    else
      raise exception 'a quota is of a state, an environment or a workspace'
        using errcode = 'KLB06', hint = 'Send JSON such as {"scope": "state", "state": "prod", "limits": {"resources_hard": 100}}.';
  end case;
end;
$$;

comment on function kilolock._quota_scope(jsonb) is
  'What a request sets a quota on.';
revoke all on function kilolock._quota_scope(jsonb) from public;
