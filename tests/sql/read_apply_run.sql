-- kilolock.read_apply_run
begin;

select tap.run('ann'), tap.run('bob');
select tap.acquire('ann', '{t.a,b}', '{c}');
select tap.acquire('bob', '{t}');
select tap.is(tap.act('read_apply_run', '{"run": "ann"}') - '{run,fencing,started_at,expires_at,reservations}'::text[],
  '{"state": "prod", "status": "running", "holder": "ann", "host": "", "path": "", "summary": {}, "base_version": 0, "committed_version": null,
    "lease_seconds": 30, "finished_at": null, "message": null, "waiting": null, "commits": []}'::jsonb, 'a run shows what it is');
select tap.is((tap.act('read_apply_run', '{"run": "ann"}') -> 'reservations') - 'since', '{"write": 2, "read": 1}'::jsonb, 'what it holds');
select tap.is((tap.act('read_apply_run', '{"run": "bob"}') -> 'waiting') - '{since,expires_at}'::text[], '{"write": 1, "read": 0}'::jsonb, 'what it waits for');
select tap.act('commit_delta', jsonb_build_object('run', 'ann', 'commit', 4, 'fencing', r.fencing, 'terraform_version', '1.11.4', 'delta', tap.delta('a')))
from kilolock.apply_runs r where r.holder = 'ann';
select tap.is((tap.act('read_apply_run', '{"run": "ann"}') #> '{commits,0}') - 'committed_at', '{"number": 4, "version": 1}'::jsonb, 'and what it wrote');
select tap.expire('ann');
select tap.is(tap.act('read_apply_run', '{"run": "ann"}') ->> 'status', 'aborted', 'a lease that has ended is seen');
select tap.throws_ok($$ select tap.act('read_apply_run', '{"run": "nobody"}') $$, 'KLN11', null, 'an unknown run is refused');

rollback;
