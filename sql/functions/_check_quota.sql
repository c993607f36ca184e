-- Refuse a write that takes a state, its environment or its workspace over a hard limit
--
-- Called by every write with the states row locked and not yet changed. Only what grows is checked: a write that lowers a
-- count or leaves it as it is is taken even above the limit.
--
-- Writers of two states of one environment must not pass its limit together. A quota that a write counts against stays
-- locked until the write commits; the next writer waits for it, then sees what the first one added.
--
-- Raises  KLQ01  more managed resources than a hard limit; DETAIL is the limit as JSON
--         KLQ02  more bytes than a hard limit; DETAIL is the limit as JSON
-- Locks   the quotas rows that apply, in the order of their ids
create or replace function kilolock._check_quota(
  p_state kilolock.states, p_managed_before bigint, p_managed_after bigint, p_bytes_before bigint, p_bytes_after bigint
)
  returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  set enable_nestloop = on
as $$
declare
  v_more_resources constant bigint := p_managed_after - p_managed_before;
  v_more_bytes     constant bigint := p_bytes_after - p_bytes_before;
  v_quotas bigint[];
  v_over   record;
begin
  if v_more_resources <= 0 and v_more_bytes <= 0 then
    return;
  end if;
  select array_agg(q.id) into v_quotas
  from (
    select q.id
    from kilolock.quotas q
    where (q.state_id = p_state.id or q.environment_id = p_state.environment_id
        or q.workspace_id = (select e.workspace_id from kilolock.environments e where e.id = p_state.environment_id))
      and (v_more_resources > 0 and q.resources_hard is not null or v_more_bytes > 0 and q.bytes_hard is not null)
    order by q.id
    for update
  ) q;
  if v_quotas is null then
    return;
  end if;

  -- A statement of its own, so that it sees what those have committed that held the quotas before.
  select u.*, coalesce(u.state, u.environment, u.workspace) as name, u.used + g.growth as wanted,
         case u.measure when 'resources' then 'managed resources' else 'bytes of state' end as counted
  into v_over
  from kilolock.quota_usage u
  cross join lateral (select case u.measure when 'resources' then v_more_resources else v_more_bytes end as growth) g
  where u.quota_id = any (v_quotas) and g.growth > 0 and u.used + g.growth > u.hard_limit
  order by u.measure desc, u.hard_limit - u.used - g.growth
  limit 1;
  if not found then
    return;
  end if;
  raise exception 'state "%": this write would bring % "%" from % to % %, over its hard limit of %',
      p_state.name, v_over.scope, v_over.name, v_over.used, v_over.wanted, v_over.counted, v_over.hard_limit
    using errcode = case v_over.measure when 'resources' then 'KLQ01' else 'KLQ02' end,
          detail = json_build_object('scope', v_over.scope, 'name', v_over.name, 'measure', v_over.measure,
            'hard_limit', v_over.hard_limit, 'used', v_over.used, 'wanted', v_over.wanted)::text,
          hint = format('Nothing was stored. Destroy what is not needed, or raise the limit: kl quota set --%s %s --%s-hard N. Terraform keeps errored.tfstate, for terraform state push afterwards.',
            v_over.scope, case when v_over.name ~ '^[A-Za-z0-9_./-]+$' then v_over.name else quote_literal(v_over.name) end,
            v_over.measure);
end;
$$;

comment on function kilolock._check_quota(kilolock.states, bigint, bigint, bigint, bigint) is
  'Refuse a write that takes a state, its environment or its workspace over a hard limit.';
revoke all on function kilolock._check_quota(kilolock.states, bigint, bigint, bigint, bigint) from public;
