-- One line a state: what kl list and kl status show.
create view kilolock.state_overview as
select e.public_id as environment, s.name, s.head_version as version, s.serial, s.lineage, s.terraform_version,
       s.resource_count as resources, d.raw_size as size, s.updated_at, l.who as locked_by, l.acquired_at as locked_since,
       l.lock_id, l.operation as lock_operation,
       (select count(*) from kilolock.version_documents v where v.state_id = s.id and v.pruned_at is null) as versions
from kilolock.states s
join kilolock.environments e on e.id = s.environment_id
left join kilolock.version_documents d on d.state_id = s.id and d.id = s.current_version_id
left join kilolock.state_locks l on l.state_id = s.id
where s.current_version_id is not null or l.state_id is not null;

comment on view kilolock.state_overview is 'One line for each state that is written or locked: head, size and lock holder.';
grant select on kilolock.state_overview to kilolock_reader;
