-- POST /v1/quotas/set, `kl quota set`: limit what a state, an environment or a workspace may hold
--
-- p_request  {"scope", "state", "environment", "workspace", "limits"}; scope and names as in _quota_scope. limits has any of
--            resources_soft, resources_hard, bytes_soft, bytes_hard: a number sets one, null removes it, and one that is
--            not named stays as it is. A limit may lie below what there is; then only less is taken.
--
-- Answers {"scope", "name", "limits", "warnings"}: every limit as it is now, and which of them are passed already.
--
-- Raises  KLB06  no limit, one that is not a whole number from 0, a soft one above the hard one; and as _quota_scope
--         KLB03, KLB05, KLN01, KLN02  as _quota_scope
-- Locks   the states row of a state; then the quotas against other setters, and the row that it changes
create or replace function kilolock.set_quota(p_request jsonb, p_actor text)
  returns json
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_names constant text[] := array['resources_soft', 'resources_hard', 'bytes_soft', 'bytes_hard'];
  v_limits jsonb := case when jsonb_typeof(p_request -> 'limits') = 'object' then p_request -> 'limits' else '{}' end;
  v_wrong  text;
  v_scope  record;
  v_old    kilolock.quotas;
  v_new    kilolock.quotas;
  v_before jsonb;
  v_after  jsonb;
begin
  select format('%s is %s', l.key, l.value) into v_wrong
  from jsonb_each(v_limits) l
  where l.key <> all (v_names)
    or not case jsonb_typeof(l.value)
      when 'null' then true
      when 'number' then (l.value #>> '{}')::numeric between 0 and 9e18 and (l.value #>> '{}')::numeric % 1 = 0
      else false
    end
  limit 1;
  if v_wrong is not null or v_limits = '{}' then
    raise exception 'the request sets no limit%', coalesce(': ' || left(v_wrong, 200), '')
      using errcode = 'KLB06',
            hint = 'limits has resources_soft, resources_hard, bytes_soft or bytes_hard; a whole number from 0, or null for none.';
  end if;
  -- 10.0 is a whole number too.
  select jsonb_object_agg(l.key, case when l.value <> 'null' then trunc((l.value #>> '{}')::numeric) end) into v_limits
  from jsonb_each(v_limits) l;
  v_scope := kilolock._quota_scope(p_request);

  lock table kilolock.quotas in share row exclusive mode;
  select q.* into v_old
  from kilolock.quotas q
  where q.state_id = v_scope.state_id or q.environment_id = v_scope.environment_id or q.workspace_id = v_scope.workspace_id
  for update;
  v_before := jsonb_build_object('resources_soft', v_old.resources_soft, 'resources_hard', v_old.resources_hard,
    'bytes_soft', v_old.bytes_soft, 'bytes_hard', v_old.bytes_hard);
  v_new := jsonb_populate_record(v_old, v_limits);
  v_after := jsonb_build_object('resources_soft', v_new.resources_soft, 'resources_hard', v_new.resources_hard,
    'bytes_soft', v_new.bytes_soft, 'bytes_hard', v_new.bytes_hard);
  if v_new.resources_soft > v_new.resources_hard or v_new.bytes_soft > v_new.bytes_hard then
    raise exception 'the soft limits of % "%" would lie above its hard limits: %', v_scope.scope, v_scope.name, v_after
      using errcode = 'KLB06', hint = 'Set both, the soft limit below the hard one.';
  end if;

  if v_after is distinct from v_before then
    if jsonb_strip_nulls(v_after) = '{}' then
      delete from kilolock.quotas q where q.id = v_old.id;
    elsif v_old.id is null then
      insert into kilolock.quotas (workspace_id, environment_id, state_id, resources_soft, resources_hard, bytes_soft,
        bytes_hard, set_by)
      values (v_scope.workspace_id, v_scope.environment_id, v_scope.state_id, v_new.resources_soft, v_new.resources_hard,
        v_new.bytes_soft, v_new.bytes_hard, kilolock._actor(p_request, p_actor));
    else
      update kilolock.quotas q
      set resources_soft = v_new.resources_soft, resources_hard = v_new.resources_hard, bytes_soft = v_new.bytes_soft,
          bytes_hard = v_new.bytes_hard, set_by = kilolock._actor(p_request, p_actor), set_at = clock_timestamp()
      where q.id = v_old.id;
    end if;
    insert into kilolock.events (state_id, kind, actor, payload)
    values (v_scope.state_id, 'quota_set', kilolock._actor(p_request, p_actor),
      jsonb_strip_nulls(jsonb_build_object('scope', v_scope.scope, 'workspace', v_scope.workspace,
        'environment', v_scope.environment)) || jsonb_build_object('limits', v_after, 'before', v_before));
  end if;

  return json_build_object('scope', v_scope.scope, 'name', v_scope.name, 'limits',
    json_build_object('resources_soft', v_new.resources_soft, 'resources_hard', v_new.resources_hard,
      'bytes_soft', v_new.bytes_soft, 'bytes_hard', v_new.bytes_hard), 'warnings', (
    select coalesce(json_agg(format('%s "%s" holds %s %s already, %s of %s', v_scope.scope, v_scope.name, u.used,
        case u.measure when 'resources' then 'managed resources' else 'bytes of state' end, u.status,
        case u.status when 'over hard limit' then u.hard_limit else u.soft_limit end) order by u.measure desc), '[]')
    from kilolock.quota_usage u
    where u.scope = v_scope.scope and u.workspace = v_scope.workspace
      and u.environment is not distinct from v_scope.environment and u.state is not distinct from v_scope.state
      and u.status like 'over%'));
end;
$$;

comment on function kilolock.set_quota(jsonb, text) is
  'Set or remove limits of a state, an environment or a workspace.';
revoke all on function kilolock.set_quota(jsonb, text) from public;
grant execute on function kilolock.set_quota(jsonb, text) to kilolock_app;
