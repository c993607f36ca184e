-- POST /v1/quotas/check, `kl quota check`: whether a plan fits, before anything is built
--
-- Counts against the state as it is now, not as it was when the plan was made. Nothing is locked and nothing kept: others
-- may still use the room up.
--
-- p_request  {"state", "workspace", "environment", "changes"}; the state need not exist yet. changes sums up the
--            resource_changes and the resource_drift of Terraform's plan JSON as objects {"count", "mode", "actions"}, with
--            "importing": true for what is imported, "deposed": true for what has a deposed key and "drift": true for what
--            is of resource_drift. What is gone already stands there as deleted, and in resource_changes as created where
--            the plan makes it again.
--
-- Only managed objects count, and no deposed ones. There was one before unless it is created or imported, and there is one
-- after unless it is deleted or forgotten: replacing one changes nothing. Bytes cannot be told from a plan; where the bytes
-- have reached a hard limit, a plan that adds resources does not fit.
--
-- Answers {"state", "verdict", "added", "removed", "limits"}. limits has a line for the resources of each scope of the
-- state, and for its bytes where they are limited: scope, name, measure, used, projected, soft_limit, hard_limit, verdict
-- and message, which says why. A verdict is ok, soft (a warning) or hard (the write will be refused); that of the whole is
-- the worst.
--
-- Raises  KLB05  the request names no state
--         KLB06  changes that are none
--         KLN02  no such workspace or environment
create or replace function kilolock.check_quota(p_request jsonb, p_actor text)
  returns json
  language plpgsql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_environment kilolock.environments;
  v_workspace   text;
  v_added       bigint;
  v_removed     bigint;
  v_gone        bigint;
begin
  if jsonb_typeof(p_request -> 'state') is distinct from 'string' then
    raise exception 'the request names no state' using errcode = 'KLB05', hint = 'Send JSON such as {"state": "prod", "changes": []}.';
  end if;
  select e.* into v_environment
  from kilolock.environments e
  where e.id = kilolock._environment_id(p_request ->> 'workspace', p_request ->> 'environment');
  select w.public_id into v_workspace from kilolock.workspaces w where w.id = v_environment.workspace_id;

  if jsonb_typeof(p_request -> 'changes') is distinct from 'array'
    or exists (
      select from jsonb_array_elements(p_request -> 'changes') c
      where jsonb_typeof(c) <> 'object' or jsonb_typeof(c -> 'mode') is distinct from 'string'
        or jsonb_typeof(c -> 'actions') is distinct from 'array' or c -> 'actions' = '[]'
        or not case when jsonb_typeof(c -> 'count') = 'number'
          then (c ->> 'count')::numeric between 0 and 1e9 and (c ->> 'count')::numeric % 1 = 0 else false end)
  then
    raise exception 'state "%": the request has no changes that could be counted', p_request ->> 'state'
      using errcode = 'KLB06',
            hint = 'Send JSON such as {"state": "prod", "changes": [{"count": 3, "mode": "managed", "actions": ["create"]}]}.';
  end if;

  select coalesce(sum(n.count) filter (where not x.was and x.stays), 0),
         coalesce(sum(n.count) filter (where x.was and not x.stays), 0),
         coalesce(sum(n.count) filter (where x.was and not x.stays and c -> 'drift' = 'true'), 0)
  into v_added, v_removed, v_gone
  from jsonb_array_elements(p_request -> 'changes') c
  cross join lateral (select (c ->> 'count')::numeric::bigint as count) n
  cross join lateral (
    select c -> 'actions' <> '["create"]' and c -> 'importing' is distinct from 'true' as was,
           c -> 'actions' not in ('["delete"]', '["forget"]') as stays
  ) x
  where c ->> 'mode' = 'managed' and c -> 'deposed' is distinct from 'true';

  return (
    with usage as (
      select u.*, coalesce(u.state, u.environment, u.workspace) as name, i.projected,
             case u.measure when 'resources' then i.projected || ' managed resources' else u.used || ' bytes of state' end as amount,
             case
               when v_added > v_removed and u.measure = 'resources' and i.projected > u.hard_limit then 'over hard'
               when v_added > v_removed and u.measure = 'bytes' and u.used >= u.hard_limit then 'full'
               when i.projected > u.hard_limit then 'still over hard'
               when i.projected > u.soft_limit then 'over soft'
               when v_added > v_gone and u.measure = 'resources' and u.used - v_gone + v_added > u.hard_limit then 'over hard meanwhile'
             end as problem
      from kilolock.quota_usage u
      cross join lateral (
        select u.used + case u.measure when 'resources' then v_added - v_removed else 0 end as projected
      ) i
      where u.workspace = v_workspace and (u.environment = v_environment.public_id or u.environment is null)
        and (u.state = p_request ->> 'state' or u.state is null)
        and (u.measure = 'resources' or coalesce(u.soft_limit, u.hard_limit) is not null)
    ),
    verdict as (
      select u.*, case when u.problem in ('over hard', 'full') then 'hard' when u.problem is not null then 'soft' else 'ok' end as verdict,
             format('%s "%s" ', u.scope, u.name) || case u.problem
               when 'over hard' then format('would have %s, over its hard limit of %s', u.amount, u.hard_limit)
               when 'full' then format('has %s, and its hard limit of %s leaves no room for more resources', u.amount, u.hard_limit)
               when 'still over hard' then format('would still have %s, over its hard limit of %s', u.amount, u.hard_limit)
               when 'over soft' then format('would have %s, over its soft limit of %s', u.amount, u.soft_limit)
               when 'over hard meanwhile' then format('may pass its hard limit of %s while it goes on: the plan adds %s resources and removes %s',
                 u.hard_limit, v_added, v_removed)
             end as message
      from usage u
    )
    select json_build_object(
      'state', p_request ->> 'state',
      'verdict', case when bool_or(v.verdict = 'hard') then 'hard' when bool_or(v.verdict = 'soft') then 'soft' else 'ok' end,
      'added', v_added, 'removed', v_removed,
      'limits', json_agg(json_build_object('scope', v.scope, 'name', v.name, 'measure', v.measure, 'used', v.used,
        'projected', case when v.measure = 'resources' then v.projected end, 'soft_limit', v.soft_limit,
        'hard_limit', v.hard_limit, 'verdict', v.verdict, 'message', v.message)
        order by v.measure desc, v.scope = 'state' desc, v.scope))
    from verdict v
  );
end;
$$;

comment on function kilolock.check_quota(jsonb, text) is
  'Whether the changes of a plan fit the quotas of a state as it is now.';
revoke all on function kilolock.check_quota(jsonb, text) from public;
grant execute on function kilolock.check_quota(jsonb, text) to kilolock_app;
