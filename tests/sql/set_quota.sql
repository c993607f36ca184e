-- kilolock.set_quota, and what a write over a limit gets
begin;

create function tap.set_quota(p_scope text, p_limits text, p_more text default '{}')
  returns json
  language sql
as $$
  select kilolock.set_quota(jsonb_build_object('scope', p_scope, 'limits', p_limits::jsonb, 'state', 'prod', 'who', 'ann') || p_more::jsonb, null)
$$;
-- A document with this many resources, and data sources and a deposed object besides.
create function tap.sized(p_serial bigint, p_count integer)
  returns bytea
  language sql
as $$
  select tap.state(p_serial, '[' || concat_ws(',', replace(tap.block('d'), '"managed"', '"data"'),
    replace(tap.block('old'), '{"schema_version"', '{"deposed":"0a0a0a0a","schema_version"'),
    (select string_agg(tap.block('r' || n), ',') from generate_series(1, p_count) n)) || ']')
$$;

-- Wrong requests
select tap.throws_ok($$ select tap.set_quota('state', '{"resources_hard":1}') $$, 'KLN01', null, 'a state that is not there has no quota');
select tap.post('prod', tap.sized(1, 3));
select tap.throws_ok(format('select tap.set_quota(%L, %L, %L)', x.scope, x.limits, x.more), 'KLB06', null, x.scope || ' with ' || x.limits || ' is refused')
from (values
  ('state', '{}', '{}'), ('state', '[]', '{}'), ('state', '5', '{}'), ('state', '{"resources":5}', '{}'),
  ('state', '{"resources_hard":-1}', '{}'), ('state', '{"resources_hard":1.5}', '{}'), ('state', '{"resources_hard":"5"}', '{}'),
  ('state', '{"resources_hard":1e30}', '{}'), ('state', '{"bytes_soft":true}', '{}'), ('state', '{"bytes_soft":[1]}', '{}'),
  ('state', '{"resources_hard":1,"resources_soft":2}', '{}'), ('planet', '{"resources_hard":1}', '{}'),
  ('state', '{"resources_hard":1}', '{"scope":null}'), ('state', '{"resources_hard":1}', '{"scope":{"a":1}}')) x(scope, limits, more);
select tap.throws_ok($$ select tap.set_quota('state', '{"resources_hard":1}', '{"state":7}') $$, 'KLB05', null, 'a state needs a name');
select tap.throws_ok($$ select tap.set_quota('state', '{"resources_hard":1}', '{"state":""}') $$, 'KLB03', null, 'that can be one');
select tap.throws_ok($$ select tap.set_quota('environment', '{"resources_hard":1}', '{"environment":"nope"}') $$, 'KLN02', null, 'an environment must be there');
select tap.throws_ok($$ select tap.set_quota('workspace', '{"resources_hard":1}', '{"workspace":"nope"}') $$, 'KLN02', null, 'and so must a workspace');
select tap.throws_ok($$ select kilolock.set_quota(null, null) $$, 'KLB06', null, 'a request must be one');
select tap.throws_ok($$ select kilolock.set_quota('[]', null) $$, 'KLB06', null, 'and an object');
select tap.is_empty($$ select q.id from kilolock.quotas q $$, 'a refused request sets nothing');

-- Setting, merging, removing
select tap.is((tap.set_quota('state', '{"resources_hard":3.0}') ->> 'limits')::jsonb,
  '{"resources_soft":null,"resources_hard":3,"bytes_soft":null,"bytes_hard":null}'::jsonb, 'a limit is set');
select tap.is((tap.set_quota('state', '{"resources_soft":2,"bytes_hard":1000000}') ->> 'limits')::jsonb,
  '{"resources_soft":2,"resources_hard":3,"bytes_soft":null,"bytes_hard":1000000}'::jsonb, 'another leaves it as it is');
select tap.throws_ok($$ select tap.set_quota('state', '{"resources_soft":4}') $$, 'KLB06',
  'the soft limits of state "prod" would lie above its hard limits: {"bytes_hard": 1000000, "bytes_soft": null, "resources_hard": 3, "resources_soft": 4}',
  'a soft limit above the hard one of before is refused');
select tap.is((tap.set_quota('state', '{"bytes_hard":null}') #>> '{warnings,0}'),
  'state "prod" holds 3 managed resources already, over soft limit of 2', 'what is passed already is told');
select tap.results_eq(
  $$ select u.measure, u.used, u.soft_limit, u.hard_limit, u.remaining, u.status, u.set_by from kilolock.quota_usage u where u.state = 'prod' order by 1 desc $$,
  $$ values ('resources', 3::bigint, 2::bigint, 3::bigint, 0::bigint, 'over soft limit', 'ann'),
            ('bytes', (select octet_length(tap.sized(1, 3)))::bigint, null, null, null, 'no limit', 'ann') $$,
  'readers see use and limits');
select tap.results_eq(
  $$ select e.actor, e.payload #>> '{limits,resources_soft}', e.payload #>> '{before,resources_soft}', s.name
     from kilolock.events e join kilolock.states s on s.id = e.state_id where e.kind = 'quota_set' order by e.id $$,
  $$ values ('ann', null, null, 'prod'), ('ann', '2', null, 'prod'), ('ann', '2', '2', 'prod') $$, 'each change is an event');
select tap.set_quota('state', '{"resources_soft":2}');
select tap.is((select count(*) from kilolock.events e where e.kind = 'quota_set'), 3::bigint, 'what changes nothing is none');

-- The hard limit
select tap.throws_ok($$ select tap.post('prod', tap.sized(2, 4)) $$, 'KLQ01',
  'state "prod": this write would bring state "prod" from 3 to 4 managed resources, over its hard limit of 3', 'a write over it is refused');
select tap.results_eq($$ select s.head_version, s.managed_count from kilolock.states s where s.name = 'prod' $$,
  $$ values (1::bigint, 3) $$, 'and leaves nothing behind');
select tap.lives_ok($$ select tap.post('prod', tap.sized(2, 3)) $$, 'as many as before are taken');
select tap.lives_ok($$ select tap.set_quota('state', '{"resources_hard":1,"resources_soft":null}') $$, 'a limit may lie below what there is');
select tap.lives_ok($$ select tap.post('prod', replace(convert_from(tap.sized(3, 3), 'UTF8'), '"id":"r1"', '"id":"changed"')::bytea) $$,
  'a change that adds none is taken above the limit');
select tap.lives_ok($$ select tap.post('prod', tap.sized(4, 2)) $$, 'one that lowers it too');
select tap.throws_ok($$ select tap.post('prod', tap.sized(5, 3)) $$, 'KLQ01', null, 'one that raises it again is not');
select tap.lock('prod', 'x');
select tap.throws_ok($$ select tap.post('prod', tap.sized(5, 3), 'x') $$, 'KLQ01', null, 'nor from the holder of the lock');
select tap.lives_ok($$ select kilolock.release_lock(null, null, 'prod', 'x', '', null) $$, 'who can release it afterwards');
select tap.is((tap.set_quota('state', '{"resources_hard":null}') ->> 'limits')::jsonb,
  '{"resources_soft":null,"resources_hard":null,"bytes_soft":null,"bytes_hard":null}'::jsonb, 'a limit is removed');
select tap.is_empty($$ select q.id from kilolock.quotas q $$, 'and a quota without any is none');
select tap.lives_ok($$ select tap.post('prod', tap.sized(5, 3)) $$, 'the write goes through then');

-- Bytes
select tap.set_quota('state', format('{"bytes_hard":%s}', octet_length(tap.sized(5, 3))));
select tap.throws_ok($$ select tap.post('prod', tap.sized(10, 3)) $$, 'KLQ02', null, 'one byte more is refused');
select tap.lives_ok($$ select tap.post('prod', tap.sized(6, 3)) $$, 'as many bytes are taken');
select tap.set_quota('state', '{"bytes_hard":0}');
select tap.lives_ok($$ select tap.post('prod', tap.sized(7, 2)) $$, 'and fewer');
select tap.throws_ok($$ select tap.post('prod', tap.sized(8, 3)) $$, 'KLQ02', null, 'but no more');
select tap.set_quota('state', '{"bytes_hard":null}');

-- Environment and workspace
select tap.set_quota('environment', '{"resources_hard":5}');
select tap.set_quota('workspace', '{"resources_hard":6,"resources_soft":1}');
select tap.lives_ok($$ select tap.post('second', tap.sized(1, 3)) $$, 'a state may fill up its environment');
select tap.throws_ok($$ select tap.post('third', tap.sized(1, 1)) $$, 'KLQ01',
  'state "third": this write would bring environment "env_default" from 5 to 6 managed resources, over its hard limit of 5', 'no other state has room then');
select tap.is_empty($$ select s.id from kilolock.states s where s.name = 'third' $$, 'nor is made');
insert into kilolock.environments (workspace_id, public_id, name) select w.id, 'env_two', 'two' from kilolock.workspaces w;
select tap.lives_ok($$ select kilolock.write_state('ws_default', 'env_two', 'third', null, tap.sized(1, 1), null, null) $$,
  'another environment has its own');
select tap.throws_ok($$ select kilolock.write_state('ws_default', 'env_two', 'third', null, tap.sized(2, 2), null, null) $$, 'KLQ01', null,
  'within the workspace''s');
select tap.results_eq(
  $$ select u.scope, u.environment, u.used, u.remaining, u.status from kilolock.quota_usage u where u.quota_id is not null and u.measure = 'resources' order by 1 $$,
  $$ values ('environment', 'env_default', 5::bigint, 0::bigint, 'ok'), ('workspace', null, 6, 0, 'over soft limit') $$, 'both totals are seen');
select tap.is((tap.set_quota('environment', '{"resources_hard":1}', '{"environment":"two"}') ->> 'name'), 'env_two', 'a label names an environment');
insert into kilolock.environments (workspace_id, public_id, name) select w.id, 'env_three', 'two' from kilolock.workspaces w;
select tap.throws_ok($$ select tap.set_quota('environment', '{"resources_hard":1}', '{"environment":"two"}') $$, 'KLB06', null, 'unless two have it');
select tap.is((tap.set_quota('environment', '{"resources_hard":2}', '{"environment":"env_two"}') #>> '{limits,resources_hard}'), '2', 'an id always does');
select tap.results_eq(
  $$ select e.state_id, e.payload ->> 'scope', e.payload ->> 'environment' from kilolock.events e where e.kind = 'quota_set' order by e.id desc limit 1 $$,
  $$ values (null::bigint, 'environment', 'env_two') $$, 'an event names the environment');

-- Deleting makes room
select kilolock.delete_state(null, null, 'second', null, null);
select tap.results_eq($$ select s.managed_count, s.head_size from kilolock.states s where s.name = 'second' $$, $$ values (0, 0::bigint) $$,
  'a deleted state counts nothing');
select tap.lives_ok($$ select tap.post('fourth', tap.sized(1, 3)) $$, 'and makes room');

-- The count that writes keep is that of the rows
select tap.results_eq(
  $$ select s.name, s.managed_count::bigint, s.head_size from kilolock.states s where s.current_version_id is not null order by 1 $$,
  $$ select s.name, (select count(*) from kilolock.resources r where r.state_id = s.id and r.mode = 'managed' and r.deposed_key is null), d.raw_size
     from kilolock.states s join kilolock.version_documents d on d.id = s.current_version_id order by 1 $$,
  'the count that writes keep is that of the rows');

rollback;
