-- What apply runs hold, one row an address. A run whose lease is over holds nothing, swept or not.
create view kilolock.resource_reservations as
select q.state_id, a.address, a.mode, q.apply_run_id, r.holder, q.granted_at as acquired_at, r.expires_at, r.fencing
from kilolock.reservation_requests q
join kilolock.apply_runs r on r.id = q.apply_run_id
cross join lateral (
  select w.address, 'write' as mode from unnest(q.writes) w(address)
  union all
  select d.address, 'read' from unnest(q.reads) d(address)
) a
where q.granted_at is not null and r.status = 'running' and r.expires_at > clock_timestamp();

comment on view kilolock.resource_reservations is
  'Addresses that apply runs hold. Each covers its instances and all below it; write excludes, reads share.';
comment on column kilolock.resource_reservations.fencing is 'The number that a commit has to name.';
grant select on kilolock.resource_reservations to kilolock_reader;
