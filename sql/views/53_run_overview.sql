-- One line an apply run: what kl status shows. One whose lease is over is aborted, swept or not.
create view kilolock.run_overview as
select s.name as state_name, r.state_id, r.id as apply_run_id,
       case when r.status = 'running' and r.expires_at <= clock_timestamp() then 'aborted' else r.status end as status,
       r.holder, r.host, r.path, r.summary, r.base_version, r.committed_version, r.started_at, r.expires_at, r.finished_at, r.message,
       coalesce(cardinality(q.writes), 0) as write_count, coalesce(cardinality(q.reads), 0) as read_count,
       q.granted_at as acquired_at, case when q.granted_at is null then q.waiting_since end as waiting_since
from kilolock.apply_runs r
join kilolock.states s on s.id = r.state_id
left join kilolock.reservation_requests q on q.apply_run_id = r.id;

comment on view kilolock.run_overview is
  'One line for each apply run: who, where, how it stands, how many addresses it holds or, without acquired_at, waits for.';
grant select on kilolock.run_overview to kilolock_reader;
