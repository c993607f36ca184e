-- kilolock.release_lock
begin;

select tap.lock('prod', 'a');
select tap.throws_ok(
  $$ select kilolock.release_lock(null, null, 'prod', null, '{"ID":"b"}', null) $$, 'KLC02', null, 'another ID is refused');
select tap.throws_ok(
  $$ select kilolock.release_lock(null, null, 'prod', null, '{"ID":', null) $$, 'KLB02', null, 'broken JSON is refused');
select tap.throws_ok(
  $$ select kilolock.release_lock(null, null, 'prod', null, '\xff', null) $$, 'KLB02', null, 'what is not UTF-8 is refused');
select kilolock.release_lock(null, null, 'prod', null, '{"ID":"a"}', null);
select tap.is_empty($$ select 1 from kilolock.state_locks $$, 'its holder releases it');
select tap.lives_ok(
  $$ select kilolock.release_lock(null, null, 'prod', null, '{"ID":"a"}', null) $$, 'releasing again is a retry');
select tap.lock('prod', 'b');
select kilolock.release_lock(null, null, 'prod', 'b', '', null);
select tap.is_empty($$ select 1 from kilolock.state_locks $$, 'an ID in the query releases');
select tap.lock('prod', 'c');
select kilolock.release_lock(null, null, 'prod', null, 'c', null);
select tap.is_empty($$ select 1 from kilolock.state_locks $$, 'a bare ID releases');
select tap.lock('prod', 'd');
select kilolock.release_lock(null, null, 'prod', null, '', 'eve');
select tap.is_empty($$ select 1 from kilolock.state_locks $$, 'no ID opens by force');
select tap.results_eq(
  $$ select e.actor from kilolock.events e where e.kind = 'lock_force_release' $$, $$ values ('eve') $$,
  'an event says who forced it');
select tap.lives_ok(
  $$ select kilolock.release_lock(null, null, 'never', null, '', null) $$, 'an unknown state has nothing to release');
select tap.is_empty($$ select 1 from kilolock.states s where s.name = 'never' $$, 'and is not made by it');

-- Apply runs
select tap.run('ann', 'res'), tap.run('bob', 'res');
select tap.acquire('ann', '{a}');
select kilolock.release_lock(null, null, 'res', (select r.id from kilolock.apply_runs r where r.holder = 'ann'), '', 'eve');
select tap.results_eq(
  $$ select r.status, r.message from kilolock.apply_runs r where r.holder = 'ann' $$, $$ values ('aborted', 'aborted by eve with an unlock') $$,
  'the ID of an apply run ends it');
select tap.lives_ok($$ select kilolock.release_lock(null, null, 'res', (select r.id from kilolock.apply_runs r where r.holder = 'ann'), '', 'eve') $$,
  'ending it again is a retry');
select tap.run('cid', 'res');
select tap.acquire('bob', '{a}');
select tap.acquire('cid', '{b}');
select tap.throws_ok($$ select kilolock.release_lock(null, null, 'res', null, '', null) $$, 'KLC16', null, 'by force none of several runs is ended');
select tap.act('release_reservations', '{"run": "cid"}');
select kilolock.release_lock(null, null, 'res', null, '', 'eve');
select tap.results_eq(
  $$ select r.holder, r.status from kilolock.apply_runs r where r.holder <> 'ann' order by 1 $$, $$ values ('bob', 'aborted'), ('cid', 'running') $$,
  'but the only one that reserves something');
select tap.lock('res', 'L');
select tap.acquire('cid', '{b}');
select tap.throws_ok($$ select kilolock.release_lock(null, null, 'res', (select r.id from kilolock.apply_runs r where r.holder = 'cid'), '', null) $$,
  'KLC02', null, 'a run that waits for a lock is not named by it');
select kilolock.release_lock(null, null, 'res', null, '', null);
select tap.is((select r.status from kilolock.apply_runs r where r.holder = 'cid'), 'running', 'force opens the lock that is held, and ends no run');

rollback;
