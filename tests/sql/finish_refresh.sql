-- kilolock.finish_refresh
begin;

create function pg_temp.finish(p_lock_id text, p_more jsonb default '{}', p_state text default 'prod')
  returns json
  language sql
as $$
  select kilolock.finish_refresh(jsonb_build_object('state', p_state, 'lock_id', p_lock_id, 'who', 'bob@host') || p_more, null)
$$;
create function pg_temp.document(p_serial bigint, variadic p_blocks text[])
  returns jsonb
  language sql
as $$
  select jsonb_build_object('document', convert_from(tap.state(p_serial, '[' || concat_ws(',', variadic p_blocks) || ']'), 'UTF8'))
$$;
create function pg_temp.begin(p_lock_id text)
  returns json
  language sql
as $$
  select kilolock.begin_refresh(jsonb_build_object('state', 'prod', 'lock_id', p_lock_id), null)
$$;

select tap.post('prod', tap.state(4, '[' || concat_ws(',', tap.block('a', '"n":1'), tap.block('b')) || ']'));
select tap.throws_ok($$ select pg_temp.finish('r0') $$, 'KLN07', null, 'a run that never began cannot end');
select tap.throws_ok($$ select pg_temp.finish('r0', p_state => 'none') $$, 'KLN01', null, 'nor that of no state');

select pg_temp.begin('r1');
select tap.results_eq($$ select f ->> 'status', f ->> 'version', f ->> 'drifted' from pg_temp.finish('r1', pg_temp.document(5, tap.block('a', '"n":2'))) f $$,
  $$ values ('drifted', '2', '2') $$, 'what drifted is stored');
select tap.results_eq($$ select v.version, v.serial, v.source, v.actor from kilolock.state_versions v order by v.version $$,
  $$ values (1::bigint, 4::numeric, 'apply', 'anonymous'), (2, 5, 'refresh', 'bob@host') $$, 'as a version of source refresh');
select tap.is((select count(*) from kilolock.state_locks), 0::bigint, 'the lock is released with it');
select tap.results_eq($$ select u.status, u.base_version, u.version, u.drifted_count, u.finished_at is not null from kilolock.refresh_runs u $$,
  $$ values ('drifted', 1::bigint, 2::bigint, 2, true) $$, 'the run says what came of it');
select tap.results_eq($$ select d.change, d.address, d.refresh_run_id = u.id from kilolock.current_drift d cross join kilolock.refresh_runs u order by d.address $$,
  $$ values ('update', 'test.a', true), ('delete', 'test.b', true) $$, 'and the drift names the run');
select tap.is(pg_temp.finish('r1', '{"failed": "late"}') ->> 'status', 'drifted', 'a run that has ended stays as it is');
select tap.is((select e.payload ->> 'refresh_run' from kilolock.events e where e.kind = 'state_write' order by e.id desc limit 1),
  (select u.id::text from kilolock.refresh_runs u), 'the event of the write names the run');

select pg_temp.begin('r2');
select tap.results_eq($$ select f ->> 'status', f ->> 'version', f ->> 'changes' from pg_temp.finish('r2', pg_temp.document(99, tap.block('a', '"n":2'))) f $$,
  $$ values ('clean', null, '[]') $$, 'a new serial is no drift');
select pg_temp.begin('r3');
select tap.is(pg_temp.finish('r3', pg_temp.document(99, tap.block('a', '"n":2,"fresh":null}, "private": "eA==", "x": {"y":1'))) ->> 'status', 'clean',
  'nor is another form of the same');
select pg_temp.begin('r4');
select tap.is(pg_temp.finish('r4') ->> 'status', 'clean', 'nothing at all is clean too');
select tap.results_eq($$ select s.head_version, s.serial, (select count(*) from kilolock.state_locks) from kilolock.states s $$,
  $$ values (2::bigint, 5::numeric, 0::bigint) $$, 'and nothing is written');

select pg_temp.begin('r5');
select tap.is(pg_temp.finish('r5', '{"failed": "the provider is away"}') ->> 'status', 'failed', 'a failure is recorded');
select tap.results_eq($$ select u.message, (select count(*) from kilolock.state_locks) from kilolock.refresh_runs u where u.status = 'failed' $$,
  $$ values ('the provider is away', 0::bigint) $$, 'with its reason, and frees the state');

select pg_temp.begin('r6');
select kilolock.release_lock(null, null, 'prod', null, null, 'carol');
select tap.throws_ok($$ select pg_temp.finish('r6', pg_temp.document(9, tap.block('c'))) $$, 'KLC01', null, 'a lost lock stores nothing');
select tap.lock('prod', 'apply-1');
select tap.throws_ok($$ select pg_temp.finish('r6', pg_temp.document(9, tap.block('c'))) $$, 'KLC01', null, 'nor where another has it by now');
select tap.is(pg_temp.finish('r6', '{"failed": "lost"}') ->> 'status', 'failed', 'it can only fail');
select tap.is((select l.lock_id from kilolock.state_locks l), 'apply-1', 'and leaves the lock of the other alone');
select kilolock.release_lock(null, null, 'prod', 'apply-1', null, null);

select pg_temp.begin('r7');
select tap.throws_ok($$ select pg_temp.finish('r7', '{"document": "no state"}') $$, 'KLB01', null, 'a document that is no state is refused');
select tap.throws_ok($$ select pg_temp.finish('r7', '{"document": {}}') $$, 'KLB06', null, 'one that is no text too');
select tap.throws_ok($$ select pg_temp.finish('r7', '{"failed": 7}') $$, 'KLB06', null, 'a reason that is no text too');
select tap.throws_ok($$ select kilolock.finish_refresh('{"state": "prod"}', null) $$, 'KLB06', null, 'and a request without a lock ID');
select tap.throws_ok($$ select kilolock.finish_refresh('{"lock_id": "r7"}', null) $$, 'KLB05', null, 'or without a state');

rollback;
