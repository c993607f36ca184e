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

rollback;
