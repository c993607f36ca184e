-- What refreshes found changed, come or gone outside Terraform, and no apply has followed yet.
--
-- Drift ends with the next version of source apply, whether it puts the resource right or leaves it: whoever applied
-- has seen it, as a plan shows it. Any other write ends the drift of the resources that it changes, and of no others:
-- a rollback of one resource, or an apply of kl that reserves a few, says nothing about the rest.
--
-- previous_* is what a resource was before the refreshes since then, so that two refreshes in a row show as one change,
-- and what drifted and went back by itself is not shown. Nor is what has another form and the same meaning: attributes
-- that a newer provider adds as null, dependencies, private data.
--
-- Goes from the refreshes, of which there are few, by indexes to what they changed: its cost does not depend on the
-- size of the states.
create view kilolock.current_drift as
select s.id as state_id, s.name as state_name,
       case
         when c.is_gone then 'delete'
         when b.address is null then 'create'
         when b.address <> c.address then 'move'
         else 'update'
       end as change,
       c.resource_id, c.address, c.deposed_key, c.type, c.mode, c.module_path, b.address as previous_address,
       c.status as current_status, b.status as previous_status, c.attributes as current_attributes,
       b.attributes as previous_attributes, d.version as detected_in, d.serial as detected_at_serial,
       d.id as detected_in_version_id, d.created_at as detected_at, u.id as refresh_run_id
from (
  select distinct v.state_id from kilolock.version_documents v where v.source = 'refresh'
) h
join kilolock.states s on s.id = h.state_id and s.current_version_id is not null
cross join lateral (
  select coalesce(max(v.version), 0) as version
  from kilolock.version_documents v
  where v.state_id = s.id and v.source = 'apply'
) a
join kilolock.version_documents d on d.state_id = s.id and d.source = 'refresh' and d.version > a.version
cross join lateral (
  select false as is_gone, r.id as resource_id, r.address, r.deposed_key, r.type, r.mode, r.module_path, r.status, r.attributes
  from kilolock.past_resources p
  cross join lateral (
    -- offset 0 makes it a look-up by key for each: a guess of many would have all live rows read.
    select r.id, r.address, r.deposed_key, r.type, r.mode, r.module_path, r.status, r.attributes
    from kilolock.resources r
    where r.id = p.resource_id and r.since_version = d.version and r.state_version_id = s.current_version_id
    offset 0
  ) r
  where p.state_id = s.id and p.until_version = d.version and p.ended_as in ('update', 'move')
  union all
  select false, r.id, r.address, r.deposed_key, r.type, r.mode, r.module_path, r.status, r.attributes
  from kilolock.resources r
  where d.created_count > 0 and r.state_version_id = s.current_version_id and r.since_version = d.version
    and r.last_change = 'create'
  union all
  select true, p.resource_id, p.address, p.deposed_key, p.type, p.mode, p.module_path, null, null
  from kilolock.past_resources p
  where p.state_id = s.id and p.until_version = d.version and p.ended_as = 'delete'
    and not exists (select from kilolock.resources r where r.id = p.resource_id)
    and not exists (
      select from kilolock.past_resources q where q.resource_id = p.resource_id and q.until_version > p.until_version)
) c
-- The newest stretch that no refresh since the last apply began, if it was one of them that ended it.
left join lateral (
  select p.status, p.attributes, p.address, p.until_version
  from kilolock.past_resources p
  where p.resource_id = c.resource_id and p.until_version <= d.version
    and (p.from_version <= a.version or not exists (
      select from kilolock.version_documents v
      where v.state_id = p.state_id and v.version = p.from_version and v.source = 'refresh'))
  order by p.until_version desc
  limit 1
) l on true
left join lateral (
  select l.status, l.attributes, l.address
  where l.until_version > a.version and exists (
    select from kilolock.version_documents v
    where v.state_id = s.id and v.version = l.until_version and v.source = 'refresh')
) b on true
left join kilolock.refresh_runs u on u.state_id = s.id and u.version = d.version
where case
  when c.is_gone then b.address is not null
  else (b.address, b.status, jsonb_strip_nulls(b.attributes))
    is distinct from (c.address, c.status, jsonb_strip_nulls(c.attributes))
end;

comment on view kilolock.current_drift is
  'What refreshes found changed, come or gone, and no apply has followed yet; current_resource_drift are those that are there.';
comment on column kilolock.current_drift.detected_in is 'The version that showed it; with the state it is the durable name of the version.';
grant select on kilolock.current_drift to kilolock_reader;
