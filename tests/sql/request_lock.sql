-- kilolock.request_lock
begin;

-- LOCK; '' when taken, else the ID of who stands in the way
create function tap.request(p_id text) returns text language sql as $$
  select coalesce(kilolock.request_lock(null, null, 'prod', convert_to(json_build_object('ID', p_id, 'Who', p_id)::text, 'UTF8'), null)::json ->> 'Who', '')
$$;

select tap.is(tap.request('L1'), '', 'a free state is locked');
select tap.is(tap.request('L1'), '', 'the same ID again is a retry');
select tap.throws_ok($$ select tap.request('L2') $$, 'KLL01', null, 'another is refused');
select tap.throws_ok($$ select kilolock.request_lock(null, null, 'prod', '{}', null) $$, 'KLB02', null, 'a lock info without an ID is refused');
select tap.throws_ok($$ select kilolock.request_lock(null, null, 'prod', '{"ID":5}', null) $$, 'KLB02', null, 'nor is a number one');

-- A lock held while runs wait
select tap.run('ann'), tap.run('bob');
select tap.acquire('ann', '{a}');
select tap.is(tap.request('L2'), 'L1', 'beside waiting runs its holder is the answer, and no error');
select kilolock.release_lock(null, null, 'prod', 'L1', null, null);
select tap.is(tap.request('L3'), 'ann', 'a run that came first is before a LOCK');
select tap.is(tap.request('L2'), 'ann', 'and before one that waits for less long');
select tap.is(tap.act('acquire_reservations', '{"run": "ann"}') ->> 'granted', 'true', 'it is served first');

-- Reservations
select tap.results_eq(
  $$ select i ->> 'Operation', i ->> 'Who', i ->> 'Path', i ->> 'Info' like 'reserves until % UTC, or longer if it renews: a. To end it: kl apply abort run\_%',
       (i ->> 'Created')::timestamptz <= clock_timestamp(), i ->> 'ID' = (select r.id from kilolock.apply_runs r where r.holder = 'ann')
     from (select kilolock.request_lock(null, null, 'prod', '{"ID":"L2"}', null)::json) x(i) $$,
  $$ values ('kl apply', 'ann', 'prod', true, true, true) $$, 'a LOCK beside reservations gets a LockInfo that describes the run');
select tap.is(tap.acquire('bob', '{b}'), '1 in the way, place 2', 'a LOCK that tries again keeps later runs waiting');
select tap.results_eq($$ select q.kind, q.holder from kilolock.reservation_queue q order by q.place $$,
  $$ values ('lock', 'L2'), ('run', 'bob') $$, 'and stands in the queue, which one that tried once does not');
select tap.is((tap.act('acquire_reservations', '{"run": "bob"}') #> '{blockers,0}') - '{since,expires_at}'::text[],
  '{"kind": "queue", "address": null, "wanted": null, "mode": null, "holder": "L2", "run": null, "lock_id": "L2"}'::jsonb, 'the run is told of it');
select tap.is(tap.acquire('ann', '{a,c}'), '1 in the way,', 'what is held is not made more meanwhile');
select tap.act('finish_apply_run', '{"run": "ann", "status": "committed"}');
select tap.is(tap.act('acquire_reservations', '{"run": "bob"}') ->> 'granted', 'false', 'later runs wait even when nothing is reserved');
select tap.is(tap.request('L3'), 'L2', 'so do later LOCKs');
select tap.is(tap.request('L2'), '', 'the first of the queue gets it');
select kilolock.release_lock(null, null, 'prod', 'L2', null, null);
select tap.is(tap.request('L3'), '', 'then the next, which came before the run');
select tap.is_empty($$ select 1 from kilolock.reservation_queue q where q.kind = 'lock' $$, 'who has the lock does not wait');
select kilolock.release_lock(null, null, 'prod', 'L3', null, null);
select tap.is(tap.act('acquire_reservations', '{"run": "bob"}') ->> 'granted', 'true', 'and then the run');
select tap.is(tap.request('L4'), 'bob', 'a LOCK waits');
select tap.is(tap.request('L4'), 'bob', 'and tries again');
update kilolock.reservation_requests q set expires_at = clock_timestamp() where q.lock_id = 'L4';
select tap.run('cid');
select tap.is(tap.acquire('cid', '{c}'), 'granted', 'a LOCK that does not try again keeps nobody waiting');
select tap.ok(kilolock.request_lock(null, null, 'prod', '{"ID":"L5"}', null)::json ->> 'Info' like '%. Other runs reserve too: 1, see kl status%',
  'that there are more runs is told');
select tap.request('L4'), tap.request('L4');
update kilolock.reservation_requests q set expires_at = clock_timestamp() where q.lock_id = 'L4';
select tap.request('L5');
select tap.is_empty($$ select 1 from kilolock.reservation_requests q where q.lock_id = 'L4' $$, 'the next LOCK drops it');
select tap.expire('bob'), tap.expire('cid');
select tap.is(tap.request('L5'), '', 'what has outlived its lease is in nobody''s way');
select kilolock.release_lock(null, null, 'prod', 'L5', null, null);
select tap.run('eve');
select tap.acquire('eve', array[e'a["\u001b[31m\n"]', 'b', 'c', 'd', 'e', 'f']);
select tap.ok(kilolock.request_lock(null, null, 'prod', '{"ID":"L6"}', null)::json ->> 'Info' like '%: a["?[31m?"], b, c, d, e … (6 in all). %',
  'few addresses are listed, without control characters');
select tap.act('release_reservations', '{"run": "eve"}');
select tap.acquire('eve', '{}', '{}');
select tap.ok(kilolock.request_lock(null, null, 'prod', '{"ID":"L7"}', null)::json ->> 'Info' like '%: no address. %', 'there may be none');

rollback;
