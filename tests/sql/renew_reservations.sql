-- kilolock.renew_reservations
begin;

select tap.run('ann');
update kilolock.apply_runs r set expires_at = clock_timestamp() + interval '1 s';
select tap.is(tap.act('renew_reservations', '{"run": "ann"}') -> 'fencing', 'null'::jsonb, 'a run that holds nothing has no fencing number');
select tap.ok(
  (select r.expires_at > clock_timestamp() + interval '25 s' from kilolock.apply_runs r), 'the lease is as long as at first again');
select tap.acquire('ann', '{a}');
select tap.is((tap.act('renew_reservations', '{"run": "ann"}') ->> 'fencing')::bigint, (select r.fencing from kilolock.apply_runs r),
  'one that holds something is told its number');
select tap.run('bob');
select tap.acquire('bob', '{a}');
create temp table before as select q.expires_at from kilolock.reservation_requests q where q.holder = 'bob';
select tap.act('renew_reservations', '{"run": "bob"}');
select tap.is((select q.expires_at from kilolock.reservation_requests q where q.holder = 'bob'), (select b.expires_at from before b),
  'a place in the queue is not renewed by it');
select tap.expire('ann');
select tap.throws_ok($$ select tap.act('renew_reservations', '{"run": "ann"}') $$, 'KLC11', null, 'a lease that has ended cannot be renewed');
select tap.is_empty($$ select 1 from kilolock.resource_reservations $$, 'what it held is not shown any more');
select tap.throws_ok($$ select tap.act('renew_reservations', '{"run": "nobody"}') $$, 'KLN11', null, 'an unknown run is refused');
select tap.throws_ok($$ select tap.act('renew_reservations', '{}') $$, 'KLB06', null, 'no run too');

rollback;
