-- Reservations with the name of their state, for people.
create view kilolock.current_reservations as
select s.name as state_name, v.state_id, v.address, v.mode, v.apply_run_id, v.holder, v.acquired_at, v.expires_at, v.fencing
from kilolock.resource_reservations v
join kilolock.states s on s.id = v.state_id;

comment on view kilolock.current_reservations is 'Addresses that apply runs hold, with the name of their state.';
grant select on kilolock.current_reservations to kilolock_reader;
