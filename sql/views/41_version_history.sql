-- The versions of every state, and where one was deleted: what kl history shows.
--
-- A deletion is a row of source delete without a version; place and is_delete give the order.
create view kilolock.version_history as
select h.environment, h.state, h.version, h.serial, h.created_at, h.actor, h.source, h.resources, h.created, h.updated, h.deleted,
       h.size, h.tags, h.state_id, h.place, h.is_delete
from (
  select e.public_id as environment, s.name as state, d.version, d.serial, d.created_at, d.actor, d.source,
         d.resource_count as resources, d.created_count as created, d.updated_count as updated, d.deleted_count as deleted,
         d.raw_size as size,
         (select string_agg(t.name, ', ' order by t.name) from kilolock.tags t where t.state_id = d.state_id and t.version = d.version) as tags,
         s.id as state_id, d.version as place, false as is_delete
  from kilolock.version_documents d
  join kilolock.states s on s.id = d.state_id
  join kilolock.environments e on e.id = s.environment_id
  where d.pruned_at is null
  union all
  select e.public_id, s.name, null, null, x.created_at, x.actor, 'delete', 0, 0, 0, d.resource_count, null, null,
         s.id, d.version, true
  from kilolock.events x
  join kilolock.states s on s.id = x.state_id
  join kilolock.environments e on e.id = s.environment_id
  left join kilolock.version_documents d on d.state_id = x.state_id and d.version = (x.payload ->> 'version')::bigint
  where x.kind = 'state_delete'
) h;

comment on view kilolock.version_history is
  'The versions of every state with their tags, and its deletions as rows without a version.';
comment on column kilolock.version_history.place is 'Order within the state: the version, or the version that was the head when it was deleted (is_delete).';
grant select on kilolock.version_history to kilolock_reader;
