-- kilolock.acquire_lock
begin;

select tap.lives_ok($$ select tap.lock('prod', 'a') $$, 'the first LOCK makes the state and holds it');
select tap.lives_ok($$ select tap.lock('prod', 'a') $$, 'the same ID again is a retry');
select tap.throws_ok($$ select tap.lock('prod', 'b') $$, 'KLL01', null, 'another ID is refused');
select tap.results_eq(
  $$ select l.lock_id, l.who, l.operation, l.created from kilolock.state_locks l $$,
  $$ values ('a', 'ann@host', 'OperationTypeApply', timestamptz '2026-03-04 05:06:07.890123+00') $$,
  'the row shows the holder');
select tap.results_eq(
  $$ select e.kind, e.actor from kilolock.events e $$, $$ values ('lock_acquire', 'ann@host') $$,
  'one event for the lock, none for its retry');
select tap.throws_ok(
  $$ select kilolock.acquire_lock(null, null, 'prod', '{"Who": "ann"}', null) $$, 'KLB02', null,
  'a lock info without an ID is refused');
select tap.throws_ok(
  $$ select kilolock.acquire_lock(null, null, 'prod', '[1', null) $$, 'KLB02', null, 'broken JSON is refused');
select tap.throws_ok(
  $$ select kilolock.acquire_lock(null, null, 'prod', '\xff', null) $$, 'KLB02', null, 'what is not UTF-8 is refused');
select tap.throws_ok($$ select tap.lock('', 'a') $$, 'KLB03', null, 'an empty name is refused');
select tap.throws_ok($$ select tap.lock(e'a\nb', 'a') $$, 'KLB03', null, 'a name with a line break is refused');
select tap.throws_ok($$ select tap.lock(repeat('x', 256), 'a') $$, 'KLB03', null, 'a name of 256 bytes is refused');
select tap.throws_ok(
  $$ select kilolock.acquire_lock('ws_none', 'env_none', 'prod', '{"ID":"a"}', null) $$, 'KLN02', null,
  'an unknown environment is refused');
select tap.lives_ok(
  $$ select kilolock.acquire_lock(null, null, 'odd', convert_to('{"ID":"x","Info":"\u0000 \\u0000 \ud800"}', 'UTF8'), null) $$,
  'what PostgreSQL cannot decode does not hinder a lock');

-- Apply runs
select tap.run('ann', 'res'), tap.run('bob', 'res');
select tap.acquire('ann', '{a}');
select tap.acquire('bob', '{a}');
select tap.throws_ok($$ select tap.lock('res', 'b') $$, 'KLL11', null, 'reserved addresses keep a state from being locked');
select tap.act('release_reservations', '{"run": "ann"}');
select tap.throws_ok($$ select tap.lock('res', 'b') $$, 'KLL11', null, 'so do runs that wait');
select tap.act('release_reservations', '{"run": "bob"}');
select tap.lives_ok($$ select tap.lock('res', 'b') $$, 'runs that want nothing do not');

rollback;
