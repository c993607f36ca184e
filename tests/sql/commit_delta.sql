-- kilolock.commit_delta
begin;

-- The request of a commit with the current fencing number of a run
create function tap.commit(p_run text, p_number bigint, p_delta jsonb, p_more jsonb default '{}')
  returns jsonb
  language sql
as $$
  select tap.act('commit_delta', jsonb_build_object('run', p_run, 'commit', p_number, 'delta', p_delta, 'fencing',
    (select r.fencing from kilolock.apply_runs r where r.holder = p_run order by r.started_at desc limit 1)) || p_more)
$$;

select tap.post('prod', tap.state(1, '[' || tap.block('a') || ',' || tap.block('c') || ']'));
select tap.run('ann', 'prod', 1), tap.run('bob', 'prod', 1);
select tap.acquire('ann', '{t.a,test.b,module.m}', '{test.c}');
select tap.acquire('bob', '{t.z}', '{test.c}');

select tap.is(tap.commit('ann', 1, tap.delta('a')) - 'run',
  '{"state": "prod", "version": 2, "serial": 2, "created": 1, "updated": 0, "deleted": 0, "moved": 0, "changed": true, "commit": 1}'::jsonb,
  'a delta makes the next version');
select tap.results_eq(
  $$ select v.version, v.source, v.actor from kilolock.state_versions v order by v.version desc limit 1 $$,
  $$ values (2::bigint, 'state-engine', 'ann') $$, 'of whoever began the run');
select tap.is((select e.payload ->> 'run' from kilolock.events e where e.kind = 'state_write' order by e.id desc limit 1),
  (select r.id from kilolock.apply_runs r where r.holder = 'ann'), 'its event names the run');
select tap.is(tap.commit('ann', 1, tap.delta('a')) ->> 'version', '2', 'the same commit again is answered as before');
select tap.is((select s.head_version from kilolock.states s), 2::bigint, 'and writes nothing');
select tap.throws_ok($$ select tap.commit('ann', 1, tap.delta('b')) $$, 'KLC15', null, 'its number is not for another delta');
select tap.is(tap.commit('bob', 1, tap.delta('z')) ->> 'version', '3', 'others commit meanwhile');
select tap.is(tap.commit('ann', 2, tap.delta('k', 'module.m["x"]', '"k"') || '{"outputs": {"put": {"o": "{\"value\": 1, \"type\": \"number\"}"}}}') ->> 'version',
  '4', 'a module covers what is in its instances; outputs need no reservation');
select tap.results_eq(
  $$ select r.address from kilolock.resources r order by 1 $$,
  $$ values ('module.m["x"].t.k["k"]'), ('t.a'), ('t.z'), ('test.a'), ('test.c') $$, 'what others wrote survives');
select tap.is((select r.committed_version from kilolock.apply_runs r where r.holder = 'ann'), 4::bigint, 'the run knows what it wrote last');

-- Only what is reserved for writing
select tap.throws_ok(format('select tap.commit(''ann'', 3, %s)', x.delta), 'KLC13', null, x.label)
from (values
  ($$ tap.delta('b') $$, 'an address that is not reserved is not written'),
  ($$ tap.delta('a', 'module.mm') $$, 'nor one that begins alike'),
  ($$ '{"remove": [{"address": "test.c"}]}' $$, 'what is reserved for reading is not removed'),
  ($$ '{"remove": [{"address": "test.a"}]}' $$, 'nor what is not reserved'),
  ($$ tap.delta('a') || '{"remove": [{"address": "test.c"}]}' $$, 'nothing of a delta is written if part of it is refused')
) x(delta, label);
select tap.is((select s.head_version from kilolock.states s), 4::bigint, 'and no version made');

-- Only by who holds it
select tap.throws_ok($$ select tap.commit('ann', 3, tap.delta('a'), '{"fencing": 0}') $$, 'KLC12', null, 'another fencing number is refused');
create temp table old as select r.fencing from kilolock.apply_runs r where r.holder = 'ann';
select tap.acquire('ann', '{t.a}');
select tap.throws_ok($$ select tap.commit('ann', 3, tap.delta('a'), jsonb_build_object('fencing', o.fencing)) from old o $$, 'KLC12', null,
  'so is the one of an earlier grant');
select tap.is(tap.commit('ann', 3, tap.delta('a')) ->> 'updated', '0', 'that of the last is taken');
select tap.act('release_reservations', '{"run": "ann"}');
select tap.throws_ok($$ select tap.commit('ann', 4, tap.delta('a')) $$, 'KLC12', null, 'who holds nothing writes nothing');
select tap.run('cid', 'prod', 1);
select tap.acquire('cid', '{t.z}');
select tap.throws_ok($$ select tap.act('commit_delta', jsonb_build_object('run', 'cid', 'commit', 1, 'fencing', 1, 'delta', tap.delta('z'))) $$, 'KLC12', null,
  'nor does who waits');
select tap.expire('bob');
select tap.throws_ok($$ select tap.commit('bob', 2, tap.delta('z')) $$, 'KLC11', null, 'a lease that has ended writes nothing');
select tap.is(tap.commit('bob', 1, tap.delta('z')) ->> 'version', '3', 'but is told of what it wrote before');

-- Only on what it was planned on
select tap.acquire('cid', '{t.z}');
select tap.throws_ok($$ select tap.commit('cid', 1, tap.delta('z')) $$, 'KLC14', null, 'what changed since the plan is not written over');
select tap.is(tap.commit('cid', 1, tap.delta('z'), '{"base_version": 5}') ->> 'version', '6', 'unless it was planned again');
select tap.is(tap.commit('cid', 2, tap.delta('z'), '{"base_version": 5}') ->> 'version', '7', 'its own commits are not in its way');
select tap.act('finish_apply_run', '{"run": "cid", "status": "committed"}');
select tap.run('dan', 'prod', 2);
select tap.acquire('dan', '{t.a}', '{t.z}');
select tap.throws_ok($$ select tap.commit('dan', 1, tap.delta('a')) $$, 'KLC14', null, 'what it reads counts as well');
select tap.act('finish_apply_run', '{"run": "dan", "status": "failed"}');
select tap.run('fay', 'prod', 7), tap.run('gil', 'prod', 7);
select tap.acquire('fay', '{t.f}');
select tap.acquire('gil', '{t.g}');
select tap.commit('gil', 1, tap.delta('g'));
select tap.commit('fay', 1, tap.delta('f'));
select tap.act('finish_apply_run', '{"run": "gil", "status": "committed"}');
select tap.is(tap.act('acquire_reservations', '{"run": "fay", "write": ["t.f", "t.g"]}') -> 'changed', '["t.g"]'::jsonb,
  'whoever reserves more is told what others changed, and not what it wrote itself');
select tap.throws_ok($$ select tap.commit('fay', 2, tap.delta('g')) $$, 'KLC14', null, 'and does not write over it');
select tap.act('finish_apply_run', '{"run": "fay", "status": "failed"}');

-- The first version of a state
select tap.run('eve', 'new');
select tap.acquire('eve', '{t}');
select tap.throws_ok($$ select tap.commit('eve', 1, tap.delta('a')) $$, 'KLN01', null, 'a state that was never written has nothing to change');
select tap.is(tap.commit('eve', 1, tap.delta('a'), '{"terraform_version": "1.9.0", "lineage": "mine"}') ->> 'serial', '1', 'but can be begun');
select tap.results_eq($$ select s.lineage, s.terraform_version, s.resource_count from kilolock.states s where s.name = 'new' $$,
  $$ values ('mine', '1.9.0', 1) $$, 'with a lineage and a version of Terraform');

-- What is refused
select tap.throws_ok(format('select tap.commit(''eve'', 2, %L, %L)', x.delta, x.more), x.code, null, x.label)
from (values
  ('7', '{}', 'KLB20', 'a delta that is a number is refused'),
  ('null', '{}', 'KLB20', 'none too'),
  ('{"put": 7}', '{}', 'KLB20', 'one whose parts are no lists too'),
  ('{"put": [7]}', '{}', 'KLB20', 'an instance that is a number too'),
  ('{"put": [{"mode": "managed", "type": "t", "name": "a", "instance": "{"}]}', '{}', 'KLB20', 'one that is broken JSON too'),
  ('{"put": [{"mode": "managed", "type": "t", "name": "a", "instance": {}}]}', '{}', 'KLB20', 'one that is not text too'),
  ('{"remove": [{"address": 7}]}', '{}', 'KLB20', 'an address that is a number too'),
  ('{"remove": [{"address": "t.b"}]}', '{}', 'KLN04', 'one that is not there too'),
  ('{}', '{"commit": 0}', 'KLB06', 'a commit without a number too'),
  ('{}', '{"commit": "1"}', 'KLB06', 'one whose number is text too'),
  ('{}', '{"fencing": null}', 'KLB06', 'one without a fencing number too'),
  ('{}', '{"base_version": 99}', 'KLN03', 'a base version that is not there too'),
  ('{}', '{"run": "nobody"}', 'KLN11', 'an unknown run too'),
  ('{}', '{"run": null}', 'KLB06', 'no run too'),
  ('{}', '{"state": "prod"}', 'KLN11', 'a run of another state too'),
  ('{}', '{"terraform_version": {}}', 'KLB06', 'a version of Terraform that is no text too')
) x(delta, more, code, label);

rollback;
