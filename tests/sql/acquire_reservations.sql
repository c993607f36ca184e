-- kilolock.acquire_reservations
begin;

select tap.run(x.who) from unnest('{ann,bob,cid,dan,eve}'::text[]) x(who);

-- Who meets whom
select tap.is(tap.acquire('ann', '{module.a,x.web[0]}', '{x.net}'), 'granted', 'addresses that nobody holds are granted');
select tap.results_eq(
  $$ select r.address, r.mode, r.holder, r.fencing = n.fencing, r.expires_at = n.expires_at
     from kilolock.resource_reservations r join kilolock.apply_runs n on n.id = r.apply_run_id order by 1 $$,
  $$ values ('module.a', 'write', 'ann', true, true), ('x.net', 'read', 'ann', true, true), ('x.web[0]', 'write', 'ann', true, true) $$,
  'and are rows');
select tap.is(tap.acquire('bob', x.write::text[], x.read::text[]), x.want, x.label)
from (values
  (1, '{x.web[0]}', '{}', '1 in the way, place 1', 'the same address is not granted twice'),
  (2, '{}', '{x.web[0]}', '1 in the way, place 1', 'not even for reading'),
  (3, '{x.web}', '{}', '1 in the way, place 1', 'what is above a reserved address is not granted'),
  (4, '{module.a.y.z[1]}', '{}', '1 in the way, place 1', 'what is below one neither'),
  (5, '{"module.a[\"k\"].y.z"}', '{}', '1 in the way, place 1', 'nor what is in an instance of a module'),
  (6, '{module}', '{x}', '2 in the way, place 1', 'nor what is above several'),
  (7, '{x.net}', '{}', '1 in the way, place 1', 'what others read cannot be written'),
  (8, '{x.other,x.web[0],x.net}', '{}', '2 in the way, place 1', 'all or nothing'),
  (9, '{module.ab,x.web[00],x.web[1],x.webs}', '{x.net}', 'granted', 'names that only begin alike do not meet, and reads share')
) x(n, write, read, want, label);
select tap.is((select count(*) from kilolock.resource_reservations v where v.holder = 'bob'), 5::bigint, 'a granted run holds all of it');

-- What a waiting run is told
select tap.is(
  (select jsonb_agg(b.value - 'since' - 'expires_at' - 'run' - 'lock_id')
   from tap.act('acquire_reservations', '{"run": "cid", "write": ["module.a.y.z", "x.net"]}') a, jsonb_array_elements(a -> 'blockers') b),
  '[{"kind": "reservation", "address": "module.a", "wanted": "module.a.y.z", "mode": "write", "holder": "ann"},
    {"kind": "reservation", "address": "x.net", "wanted": "x.net", "mode": "read", "holder": "ann"},
    {"kind": "reservation", "address": "x.net", "wanted": "x.net", "mode": "read", "holder": "bob"}]'::jsonb,
  'a waiting run is told who holds which address that it wants');
select tap.ok(
  (select bool_and((b.value ->> 'since')::timestamptz <= clock_timestamp() and (b.value ->> 'expires_at')::timestamptz > clock_timestamp()
     and b.value ->> 'run' like 'run\_%')
   from tap.act('acquire_reservations', '{"run": "cid"}') a, jsonb_array_elements(a -> 'blockers') b),
  'since when and until when, and by which run');
select tap.is_empty($$ select 1 from kilolock.resource_reservations v where v.holder = 'cid' $$, 'it holds nothing');
select tap.results_eq(
  $$ select q.place, q.kind, q.holder, q.writes, q.reads from kilolock.reservation_queue q $$,
  $$ values (1::bigint, 'run', 'cid', '{module.a.y.z,x.net}'::text[], '{}'::text[]) $$, 'it stands in the queue');

-- First come, first served among those that meet
select tap.is(tap.acquire('dan', '{}', '{x.net,free}'), '1 in the way, place 2', 'who meets a waiting run waits behind it');
select tap.is(tap.acquire('eve', '{apart.too}'), 'granted', 'who meets nobody goes through');
select tap.act('release_reservations', '{"run": "ann"}');
select tap.is(tap.acquire('dan', '{}', '{x.net,free}'), '1 in the way, place 2', 'and does not overtake');
select tap.act('release_reservations', '{"run": "bob"}');
select tap.is(tap.act('acquire_reservations', '{"run": "dan"}') ->> 'granted', 'false', 'not even when nothing is held');
select tap.is(tap.act('acquire_reservations', '{"run": "cid"}') ->> 'granted', 'true', 'the first gets it, without saying again what it wants');
select tap.is(tap.acquire('bob', '{}', '{free}'), 'granted', 'reads do not wait for reads that wait');
select tap.is(tap.acquire('ann', '{free}'), '2 in the way, place 2', 'a write waits for both');

-- Leases
select tap.expire('cid');
select tap.is(tap.acquire('dan', '{}', '{x.net,free}'), 'granted', 'what a run held is free when its lease has ended');
select tap.results_eq(
  $$ select r.status, r.message like 'its lease ended at % and was not renewed', r.finished_at is not null from kilolock.apply_runs r where r.holder = 'cid' $$,
  $$ values ('aborted', true, true) $$, 'the next caller ends the run');
select tap.is((select count(*) from kilolock.events e where e.kind = 'run_abort'), 1::bigint, 'with an event');
select tap.throws_ok($$ select tap.acquire('cid', '{free}') $$, 'KLC11', null, 'it cannot acquire any more');
update kilolock.reservation_requests q set expires_at = clock_timestamp() where q.holder = 'ann';
select tap.run('cid');
select tap.is(tap.acquire('cid', '{free}'), '2 in the way, place 1', 'who does not ask again in time loses its place');
select tap.is(tap.acquire('ann', '{free}'), '3 in the way, place 2', 'and comes last then');
update kilolock.apply_runs r set expires_at = clock_timestamp() where r.holder = 'ann';
select tap.is(tap.acquire('ann', '{free}'), '3 in the way, place 2',
  'who holds nothing and asks just now is alive, however long it waited for its turn to ask');

-- Asking for others
select tap.is(tap.acquire('eve', '{apart.too}'), 'granted', 'the same again is a retry');
select tap.is((select count(*) from (select distinct v.fencing from kilolock.resource_reservations v where v.holder = 'eve') x), 1::bigint, 'under one number');
select tap.is(tap.acquire('ann', '{other}'), 'granted', 'who asks for others while it waits, gives up its place');
select tap.is(
  (select v.fencing from kilolock.resource_reservations v where v.holder = 'ann')
    > (select max(v.fencing) from kilolock.resource_reservations v where v.holder <> 'ann'), true, 'each grant has a higher number');
create temp table before as select r.fencing from kilolock.apply_runs r where r.holder = 'ann';
select tap.is(tap.acquire('ann', '{other,more}'), 'granted', 'others take the place of what is held, if they are free');
select tap.is((select r.fencing > b.fencing from kilolock.apply_runs r, before b where r.holder = 'ann'), true, 'under a new number');
select tap.is(tap.act('acquire_reservations', '{"run": "ann", "write": ["other", "free"]}') - 'blockers' - 'expires_at' - 'run',
  '{"granted": false, "holding": true, "place": null, "waiting_since": null, "head_version": 0, "blockers_count": 3}'::jsonb,
  'if not, they are refused');
select tap.results_eq(
  $$ select v.address from kilolock.resource_reservations v where v.holder = 'ann' order by 1 $$, $$ values ('more'), ('other') $$,
  'and the run keeps what it holds, without a place in the queue');
select tap.is(tap.acquire('cid', '{apart}'), '1 in the way, place 1', 'a new request of one who waits is judged anew');
select tap.is(tap.acquire('eve', '{apart.too.x}'), 'granted', 'less of what is held is granted, whoever waits');
select tap.is(tap.acquire('eve', '{}', '{apart.too.x}'), 'granted', 'so is reading it only');
select tap.is(tap.acquire('eve', '{apart.too.x}'), '1 in the way,', 'but not writing it again, past those who wait');
select tap.act('release_reservations', jsonb_build_object('run', r.holder)) from kilolock.apply_runs r where r.status = 'running';

-- The Terraform lock
select tap.lock('prod', 'L');
select tap.is(
  (select (a -> 'blockers' -> 0) - 'since' from tap.act('acquire_reservations', '{"run": "ann", "write": ["free"]}') a),
  '{"kind": "lock", "address": null, "wanted": null, "mode": null, "holder": "ann@host", "run": null, "lock_id": "L", "expires_at": null}'::jsonb,
  'a Terraform lock stands in the way of everything, and its holder is named');
select kilolock.release_lock(null, null, 'prod', 'L', null, null);
select tap.is(tap.acquire('ann', '{free}'), 'granted', 'until it goes');
select tap.throws_ok($$ select tap.lock('prod', 'M') $$, 'KLL11', null, 'and no lock is taken beside a reservation');

-- What changed
select tap.act('finish_apply_run', jsonb_build_object('run', r.holder, 'status', 'failed')) from kilolock.apply_runs r where r.status = 'running';
select tap.post('prod', tap.state(1, '[' || tap.block('a') || ',' || tap.block('b') || ',' || tap.block('c', '', 'module.m') || ']'));
select tap.run('ann', 'prod', 1);
select tap.post('prod', tap.state(2, '[' || tap.block('a', '"x":1') || ',' || tap.block('d') || ',' || tap.block('c', '', 'module.m', '0') || ']'));
select tap.is(
  tap.act('acquire_reservations', jsonb_build_object('run', 'ann', 'write', x.write)) - 'run' - 'expires_at' - 'fencing' - 'granted' - 'base_version',
  jsonb_build_object('head_version', 2, 'changed', x.want, 'changed_count', jsonb_array_length(x.want), 'outputs_changed', false), x.label)
from (values
  (1, '["test.a"]'::jsonb, '["test.a"]'::jsonb, 'an update since the base version is told'),
  (2, '["test.b"]', '["test.b"]', 'a deletion too'),
  (3, '["test"]', '["test.a", "test.b", "test.d"]', 'all that an address covers'),
  (4, '["module.m.test.c[0]"]', '["module.m.test.c", "module.m.test.c[0]"]', 'and what it is covered by'),
  (5, '["test.e", "module.n"]', '[]', 'but nothing else')
) x(n, write, want, label);
select tap.is(tap.act('acquire_reservations', '{"run": "ann", "write": ["test"], "base_version": 2}') -> 'changed', '[]'::jsonb,
  'a run that planned again says so');
select tap.act('release_reservations', '{"run": "ann"}');
select tap.post('prod', tap.state(3, '[' || tap.block('a', '"x":1') || ']', '{"o":{"value":1,"type":"number"}}'));
select tap.is(tap.act('acquire_reservations', '{"run": "ann", "write": ["z"]}') -> 'outputs_changed', 'true'::jsonb, 'outputs are told apart');
select tap.act('release_reservations', '{"run": "ann"}');
select kilolock.delete_state(null, null, 'prod', null, null);
select tap.is(tap.act('acquire_reservations', '{"run": "ann", "write": ["test.a"]}') - 'run' - 'expires_at' - 'fencing' - 'granted' - 'base_version',
  '{"head_version": 0, "changed": ["test.a"], "changed_count": 1, "outputs_changed": true}'::jsonb, 'a deleted state has lost everything');

-- What is refused
select tap.act('release_reservations', '{"run": "ann"}');
select tap.throws_ok(format('select tap.act(''acquire_reservations'', %L)', x.request), x.code, null, x.label)
from (values
  ('{"write": ["a"]}', 'KLB06', 'a request that names no run is refused'),
  ('{"run": 7, "write": ["a"]}', 'KLN11', 'a number names none'),
  ('{"run": {}, "write": ["a"]}', 'KLB06', 'nor does an object'),
  ('{"run": "run_0", "write": ["a"]}', 'KLN11', 'an unknown run is refused'),
  ('{"run": "ann", "state": "elsewhere", "write": ["a"]}', 'KLN01', 'a run of another state too'),
  ('{"run": "ann"}', 'KLB06', 'naming no addresses while it waits for none too'),
  ('{"run": "ann", "write": "a"}', 'KLB06', 'addresses that are no list too'),
  ('{"run": "ann", "write": ["a", 7]}', 'KLB06', 'a number among them too'),
  ('{"run": "ann", "write": [null]}', 'KLB06', 'a null too'),
  ('{"run": "ann", "read": [""]}', 'KLB06', 'an empty one too'),
  ('{"run": "ann", "read": [[]]}', 'KLB06', 'a list too'),
  ('{"run": "ann", "write": ["a"], "base_version": 9}', 'KLN03', 'a base version that is not there too'),
  ('{"run": "ann", "write": ["a"], "base_version": true}', 'KLB06', 'one that is no number too')
) x(request, code, label);
select tap.throws_ok($$ select tap.acquire('ann', array[repeat('x', 16385)]) $$, 'KLB11', null, 'an address of more than 16 KiB is refused');
select tap.throws_ok($$ select tap.acquire('ann', array[repeat('.', 16384)]) $$, 'KLB11', null, 'one of dots only too');
select tap.throws_ok($$ select tap.acquire('ann', (select array_agg('a' || n) from generate_series(1, 100001) n)) $$, 'KLB11', null,
  'more than 100,000 addresses too');
select tap.throws_ok(
  $$ select tap.acquire('ann', (select array_agg('a' || n) from generate_series(1, 60000) n), (select array_agg('b' || n) from generate_series(1, 60000) n)) $$,
  'KLB11', null, 'in both lists together too');
select tap.is(tap.acquire('ann', array['x.y["' || repeat(e'\\" ]\n', 2500) || '"]', e'\u00e4["\U0001F4A5"]', '..', '.', '[']), 'granted',
  'addresses may be long and hold any character');
select tap.is(tap.acquire('ann', '{}', '{}'), 'granted', 'a run may hold nothing but its turn');
select tap.throws_ok($$ select tap.lock('prod', 'N') $$, 'KLL11', null, 'which excludes a Terraform lock, too');

rollback;
