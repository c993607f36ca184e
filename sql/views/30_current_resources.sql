-- Live resources with the name of their state, for people.
create view kilolock.current_resources as
select s.name as state_name, r.id, r.state_id, r.state_version_id, r.address, r.module_path, r.mode, r.type, r.name, r.index_key,
       r.deposed_key, r.provider, r.schema_version, r.status, r.attributes, r.sensitive_paths, r.created_serial,
       r.changed_serial, r.changed_at
from kilolock.states s
join kilolock.resources r on r.state_version_id = s.current_version_id;

comment on view kilolock.current_resources is 'Live resources with the name of their state.';
grant select on kilolock.current_resources to kilolock_reader;
