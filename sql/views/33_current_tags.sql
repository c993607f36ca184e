-- The tags with what they point to: what kl tag list shows.
create view kilolock.current_tags as
select s.name as state_name, t.state_id, t.name as tag, t.version, d.serial, d.created_at as written_at, d.resource_count,
       t.actor, t.created_at
from kilolock.tags t
join kilolock.states s on s.id = t.state_id
join kilolock.version_documents d on d.state_id = t.state_id and d.version = t.version;

comment on view kilolock.current_tags is
  'Tags with the name of their state and the version they point to; actor set them at created_at.';
grant select on kilolock.current_tags to kilolock_reader;
