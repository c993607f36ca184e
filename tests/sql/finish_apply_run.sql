-- kilolock.finish_apply_run
begin;

select tap.run('ann'), tap.run('bob'), tap.run('cid');
select tap.acquire('ann', '{a}');
select tap.acquire('bob', '{a}');
select tap.is(tap.act('finish_apply_run', '{"run": "ann", "status": "committed"}') - '{run,finished_at}'::text[],
  '{"status": "committed", "committed_version": null}'::jsonb, 'a run ends as its client says');
select tap.is_empty($$ select 1 from kilolock.resource_reservations $$, 'and holds nothing any more');
select tap.lives_ok($$ select tap.act('finish_apply_run', '{"run": "ann", "status": "committed"}') $$, 'the same again is a retry');
select tap.throws_ok($$ select tap.act('finish_apply_run', '{"run": "ann", "status": "failed"}') $$, 'KLC11', null, 'another end is refused');
select tap.is(tap.act('finish_apply_run', '{"run": "bob", "status": "failed", "message": "boom: see the log"}') ->> 'status', 'failed', 'a run may fail');
select tap.results_eq(
  $$ select r.message, r.finished_at is not null from kilolock.apply_runs r where r.holder = 'bob' $$, $$ values ('boom: see the log', true) $$, 'with a reason');
select tap.is_empty($$ select 1 from kilolock.reservation_queue $$, 'and waits for nothing any more');
select tap.results_eq(
  $$ select e.kind, e.actor, e.payload ->> 'status' from kilolock.events e where e.kind <> 'run_begin' order by e.id $$,
  $$ values ('run_finish', 'ann', 'committed'), ('run_finish', 'bob', 'failed') $$, 'each end is one event');
select tap.throws_ok($$ select tap.act('finish_apply_run', '{"run": "cid", "status": "aborted"}') $$, 'KLB06', null, 'it cannot finish as aborted');
select tap.throws_ok($$ select tap.act('finish_apply_run', '{"run": "cid"}') $$, 'KLB06', null, 'nor without a status');
select tap.throws_ok($$ select tap.act('finish_apply_run', '{"run": "cid", "status": []}') $$, 'KLB06', null, 'nor with one that is no text');
select tap.expire('cid');
select tap.lives_ok($$ select tap.act('finish_apply_run', '{"run": "cid", "status": "committed"}') $$, 'a lease that has ended is no harm while nothing is held');
select tap.run('dan');
select tap.acquire('dan', '{a}');
select tap.expire('dan');
select tap.throws_ok($$ select tap.act('finish_apply_run', '{"run": "dan", "status": "committed"}') $$, 'KLC11', null, 'but is where something was');
select tap.throws_ok($$ select tap.act('finish_apply_run', '{"run": "nobody", "status": "failed"}') $$, 'KLN11', null, 'an unknown run is refused');

rollback;
