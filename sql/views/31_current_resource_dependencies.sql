-- Live dependencies with names, for people.
create view kilolock.current_resource_dependencies as
select s.name as state_name, d.from_resource_id, f.address as from_address, d.to_resource_id, t.address as to_address
from kilolock.resource_dependencies d
join kilolock.resources f on f.id = d.from_resource_id
join kilolock.resources t on t.id = d.to_resource_id
join kilolock.states s on s.current_version_id = f.state_version_id;

comment on view kilolock.current_resource_dependencies is 'Live dependencies with the addresses at both ends and the name of their state.';
grant select on kilolock.current_resource_dependencies to kilolock_reader;
