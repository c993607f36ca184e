-- One line a state: what kl list and kl status show.
create view kilolock.state_overview as
select e.public_id as environment, s.name, case when s.current_version_id is not null then s.head_version end as version, s.serial, s.lineage, s.terraform_version,
       s.resource_count as resources, d.raw_size as size, s.updated_at, l.who as locked_by, l.acquired_at as locked_since,
       l.lock_id, l.operation as lock_operation,
       (select count(*) from kilolock.version_documents v where v.state_id = s.id and v.pruned_at is null) as versions,
       s.id as state_id
from kilolock.states s
join kilolock.environments e on e.id = s.environment_id
left join kilolock.version_documents d on d.state_id = s.id and d.id = s.current_version_id
left join kilolock.state_locks l on l.state_id = s.id
where s.current_version_id is not null or l.state_id is not null
  or s.id in (select r.state_id from kilolock.apply_runs r where r.status = 'running' and r.expires_at > clock_timestamp());

comment on view kilolock.state_overview is
  'One line for each state that is written, locked or being applied to: head, size and lock holder. version is null without a head.';
grant select on kilolock.state_overview to kilolock_reader;
