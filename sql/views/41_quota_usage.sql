-- What every state, environment and workspace holds, and the limits it has: two lines each, of resources and of bytes.
--
-- A query that asks for scopes with a quota (quota_id) or for one scope reads no other.
create view kilolock.quota_usage as
select c.scope, c.workspace, c.environment, c.state, m.measure, m.used, m.soft_limit, m.hard_limit,
       case when m.used < m.hard_limit then m.hard_limit - m.used else m.hard_limit * 0 end as remaining,
       case
         when m.used > m.hard_limit then 'over hard limit'
         when m.used > m.soft_limit then 'over soft limit'
         when coalesce(m.soft_limit, m.hard_limit) is not null then 'ok'
         else 'no limit'
       end as status,
       c.quota_id, c.set_by, c.set_at
from (
  select 'state' as scope, w.public_id as workspace, e.public_id as environment, s.name as state,
         s.managed_count::bigint as resources, s.head_size as bytes,
         q.id as quota_id, q.resources_soft, q.resources_hard, q.bytes_soft, q.bytes_hard, q.set_by, q.set_at
  from kilolock.states s
  join kilolock.environments e on e.id = s.environment_id
  join kilolock.workspaces w on w.id = e.workspace_id
  left join kilolock.quotas q on q.state_id = s.id
  union all
  select 'environment', w.public_id, e.public_id, null, t.resources, t.bytes, q.id,
         q.resources_soft, q.resources_hard, q.bytes_soft, q.bytes_hard, q.set_by, q.set_at
  from kilolock.environments e
  join kilolock.workspaces w on w.id = e.workspace_id
  left join kilolock.quotas q on q.environment_id = e.id
  cross join lateral (
    select coalesce(sum(s.managed_count), 0)::bigint as resources, coalesce(sum(s.head_size), 0)::bigint as bytes
    from kilolock.states s
    where s.environment_id = e.id
  ) t
  union all
  select 'workspace', w.public_id, null, null, t.resources, t.bytes, q.id,
         q.resources_soft, q.resources_hard, q.bytes_soft, q.bytes_hard, q.set_by, q.set_at
  from kilolock.workspaces w
  left join kilolock.quotas q on q.workspace_id = w.id
  cross join lateral (
    select coalesce(sum(s.managed_count), 0)::bigint as resources, coalesce(sum(s.head_size), 0)::bigint as bytes
    from kilolock.environments e
    join kilolock.states s on s.environment_id = e.id
    where e.workspace_id = w.id
  ) t
) c
cross join lateral (
  values ('resources', c.resources, c.resources_soft, c.resources_hard), ('bytes', c.bytes, c.bytes_soft, c.bytes_hard)
) m(measure, used, soft_limit, hard_limit);

comment on view kilolock.quota_usage is
  'Use and limits of every state, environment and workspace. A null limit is none; quota_id is null where nothing is limited.';
comment on column kilolock.quota_usage.measure is 'resources: live managed ones. bytes: of the head documents.';
comment on column kilolock.quota_usage.remaining is 'What the hard limit leaves; 0 beyond it, null without one.';
grant select on kilolock.quota_usage to kilolock_reader;
