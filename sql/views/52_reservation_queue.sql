-- Who waits for reservations, or for the lock of a state that has some; first come, first served among those that meet.
create view kilolock.reservation_queue as
select s.name as state_name, q.state_id, row_number() over (partition by q.state_id order by q.id) as place,
       case when q.lock_id is null then 'run' else 'lock' end as kind, q.apply_run_id, q.lock_id, q.holder, q.waiting_since,
       q.expires_at, q.writes, q.reads
from kilolock.reservation_requests q
join kilolock.states s on s.id = q.state_id
left join kilolock.apply_runs r on r.id = q.apply_run_id
where q.granted_at is null and q.expires_at > clock_timestamp()
  and case when q.lock_id is null then r.status = 'running' and r.expires_at > clock_timestamp() else q.attempts > 1 end;

comment on view kilolock.reservation_queue is
  'Requests that wait, in order of arrival: apply runs, and LOCKs that were tried more than once.';
comment on column kilolock.reservation_queue.place is
  'Place among all that wait in the state. One that meets none of those before it is served before them.';
grant select on kilolock.reservation_queue to kilolock_reader;
