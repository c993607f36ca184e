-- What every resource was, stretch by stretch: version v had the rows with from_version <= v < until_version.
--
-- A row that is still true has no until_version. A deletion is a row of its own, an empty stretch with what was
-- deleted, so that the life of an address reads from top to bottom. What went with its state has source delete, and the
-- actor of that.
create view kilolock.resource_history as
select h.resource_id, h.state_id, h.address, h.deposed_key, h.mode, h.type, h.module_path, h.name, h.provider, h.status,
       h.attributes, h.from_version, h.until_version, h.change,
       case when e.id is not null then 'delete' else coalesce(d.source, 'apply') end as source,
       coalesce(e.actor, d.actor, 'anonymous') as actor, coalesce(e.created_at, d.created_at) as changed_at
from (
  select r.id as resource_id, r.state_id, r.address, r.deposed_key, r.mode, r.type, r.module_path, r.name, r.provider,
         r.status, r.attributes, r.since_version as from_version, null::bigint as until_version, r.last_change as change
  from kilolock.resources r
  union all
  select p.resource_id, p.state_id, p.address, p.deposed_key, p.mode, p.type, p.module_path, p.name, p.provider,
         p.status, p.attributes, p.from_version, p.until_version, p.began_as
  from kilolock.past_resources p
  union all
  select p.resource_id, p.state_id, p.address, p.deposed_key, p.mode, p.type, p.module_path, p.name, p.provider,
         p.status, p.attributes, p.until_version, p.until_version, 'delete'
  from kilolock.past_resources p
  where p.ended_as = 'delete'
) h
left join kilolock.version_documents d on d.state_id = h.state_id and d.version = h.from_version
left join kilolock.events e
  on h.change = 'delete' and e.state_id = h.state_id and e.kind = 'state_delete'
  and (e.payload ->> 'version')::bigint = h.from_version - 1;

comment on view kilolock.resource_history is
  'What resources were: version v had the rows with from_version <= v and v < until_version (or no until_version).';
grant select on kilolock.resource_history to kilolock_reader;
