-- kilolock.abort_apply_run
begin;

select tap.run('ann');
select tap.acquire('ann', '{a}');
select tap.is(tap.act('abort_apply_run', '{"run": "ann", "who": "eve", "message": "laptop lost"}') - '{run,finished_at}'::text[],
  '{"status": "aborted", "committed_version": null, "aborted": true}'::jsonb, 'anybody may end a run');
select tap.is_empty($$ select 1 from kilolock.resource_reservations $$, 'it holds nothing any more');
select tap.results_eq($$ select r.message from kilolock.apply_runs r $$, $$ values ('aborted by eve: laptop lost') $$, 'it says who and why');
select tap.results_eq(
  $$ select e.actor from kilolock.events e where e.kind = 'run_abort' $$, $$ values ('eve') $$, 'so does an event');
select tap.is(tap.act('abort_apply_run', '{"run": "ann", "who": "eve"}') -> 'aborted', 'false'::jsonb, 'ending it again changes nothing');
select tap.throws_ok($$ select tap.act('renew_reservations', '{"run": "ann"}') $$, 'KLC11', null, 'its client learns that it is over');
select tap.run('bob');
select tap.act('finish_apply_run', '{"run": "bob", "status": "committed"}');
select tap.is(tap.act('abort_apply_run', '{"run": "bob"}') ->> 'status', 'committed', 'a run that ended stays as it ended');
select tap.throws_ok($$ select tap.act('abort_apply_run', '{"run": "nobody"}') $$, 'KLN11', null, 'an unknown run is refused');
select tap.throws_ok($$ select tap.act('abort_apply_run', '{"run": ["ann"]}') $$, 'KLB06', null, 'a list of runs too');

rollback;
