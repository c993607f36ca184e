-- kilolock.begin_apply_run
begin;

select tap.is(tap.run('ann') - 'run' - 'expires_at', '{"lease_seconds": 30, "base_version": 0, "head_version": 0}',
  'a run may be the first thing that happens to a state');
select tap.post('prod', tap.state(1, '[' || tap.block('a') || ']'));
select tap.is(tap.run('bob', 'prod', 1) ->> 'head_version', '1', 'it answers the version of the head');
select tap.act('begin_apply_run', '{"state": "prod", "base_version": 1, "who": "cid", "host": "h", "path": "/w", "summary": {"add": 1}, "lease_seconds": 60}');
select tap.results_eq(
  $$ select r.status, r.host, r.path, r.summary::text, r.base_version, r.finished_at is null,
       r.expires_at between clock_timestamp() + interval '55 s' and clock_timestamp() + interval '61 s'
     from kilolock.apply_runs r where r.holder = 'cid' $$,
  $$ values ('running', 'h', '/w', '{"add": 1}', 1::bigint, true, true) $$, 'and keeps who, where, what, and for how long');
select tap.results_eq(
  $$ select e.actor, e.payload ->> 'holder' from kilolock.events e where e.kind = 'run_begin' order by e.id limit 1 $$,
  $$ values ('ann', 'ann') $$, 'an event says who began it');
select tap.throws_ok(format('select tap.act(''begin_apply_run'', %L)', x.request), x.code, null, x.label)
from (values
  ('{"base_version": 0}', 'KLB05', 'a request without a state is refused'),
  ('{"state": "prod"}', 'KLB06', 'without a base version too'),
  ('{"state": "prod", "base_version": "0"}', 'KLB06', 'a base version that is a string too'),
  ('{"state": "prod", "base_version": -1}', 'KLB06', 'a negative one too'),
  ('{"state": "prod", "base_version": 0.5}', 'KLB06', 'a broken one too'),
  ('{"state": "prod", "base_version": 1e300}', 'KLB06', 'a huge one too'),
  ('{"state": "prod", "base_version": 2}', 'KLN03', 'one that the state does not have too'),
  ('{"state": "prod", "base_version": 0, "lease_seconds": 4}', 'KLB06', 'a lease that is too short too'),
  ('{"state": "prod", "base_version": 0, "lease_seconds": 601}', 'KLB06', 'one that is too long too'),
  ('{"state": "prod", "base_version": 0, "lease_seconds": []}', 'KLB06', 'one that is no number too'),
  ('{"state": "prod", "base_version": 0, "summary": "big"}', 'KLB06', 'a summary that is no object too'),
  ('{"state": "prod", "base_version": 0, "path": {}}', 'KLB06', 'a path that is no text too'),
  ('{"state": "", "base_version": 0}', 'KLB03', 'an empty name too'),
  ('{"state": "x", "workspace": "w", "environment": "e", "base_version": 0}', 'KLN02', 'an unknown environment too')
) x(request, code, label);
select tap.throws_ok(
  $$ select tap.act('begin_apply_run', jsonb_build_object('state', 'prod', 'base_version', 0, 'summary', jsonb_build_object('x', repeat('x', 300000)))) $$,
  'KLB06', null, 'a summary as large as a plan too');

rollback;
