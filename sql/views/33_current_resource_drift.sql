-- Live resources that drifted: a refresh was the last to change them, and no apply has followed (see current_drift).
create view kilolock.current_resource_drift as
select d.resource_id, d.state_id, d.state_name, d.address, d.type, d.mode, d.module_path, d.current_attributes,
       d.previous_attributes, d.detected_at_serial, d.detected_in_version_id, d.detected_at, d.refresh_run_id
from kilolock.current_drift d
where d.change <> 'delete';

comment on view kilolock.current_resource_drift is
  'Live resources last changed by a refresh, until a later apply, with what they were before.';
grant select on kilolock.current_resource_drift to kilolock_reader;
