-- kilolock.write_state
begin;

select tap.is((tap.post('prod', tap.state(1, '[' || tap.block('a') || ']')) ->> 'version'), '1', 'the first write is version 1');
select tap.is((tap.post('prod', tap.state(1, '[' || tap.block('a') || ']')) ->> 'changed'), 'false', 'the same document again changes nothing');
select tap.throws_ok($$ select tap.post('prod', tap.state(1)) $$, 'KLC03', null, 'the same serial with another document is refused');
select tap.throws_ok(
  $$ select tap.post('prod', tap.state(2, '[]', '{}', 'other')) $$, 'KLC04', null, 'another lineage is refused');
select tap.throws_ok(
  $$ select kilolock.write_state(null, null, 'prod', null, tap.state(2), 'AAAA', null) $$, 'KLB04', null, 'a wrong Content-MD5 is refused');
select tap.throws_ok($$ select tap.post('prod', '{"version":') $$, 'KLB01', null, 'broken JSON is refused');
select tap.throws_ok($$ select tap.post('prod', '') $$, 'KLB01', null, 'no body is refused');
select tap.throws_ok($$ select tap.post('prod', '\xff') $$, 'KLB01', null, 'what is not UTF-8 is refused');
select tap.throws_ok($$ select tap.post('prod', '{"version":3}') $$, 'KLB01', null, 'version 3 is refused');
select tap.throws_ok($$ select tap.post('prod', '{"version":"4"}') $$, 'KLB01', null, 'a version that is a string is refused');
select tap.throws_ok($$ select tap.post('prod', '[]') $$, 'KLB01', null, 'an array is refused');
select tap.throws_ok(
  $$ select tap.post('prod', tap.state(2, '[null]')) $$, 'KLB01', null, 'a resource that is null is refused');
select tap.throws_ok(
  $$ select tap.post('prod', tap.state(2, '[' || replace(tap.block('a'), 'managed', 'ephemeral') || ']')) $$, 'KLB01', null,
  'an unknown mode is refused');
select tap.throws_ok(
  $$ select tap.post('prod', tap.state(2, '[' || tap.block('a', '', '', 'true') || ']')) $$, 'KLB01', null,
  'an index_key that is neither number nor string is refused');
select tap.throws_ok(
  $$ select tap.post('prod', tap.state(2, '[' || tap.block('a') || ',' || tap.block('a') || ']')) $$, 'KLB01', null,
  'an address twice is refused');
select tap.results_eq($$ select s.head_version, s.serial from kilolock.states s $$, $$ values (1::bigint, 1::numeric) $$, 'none of it left a trace');

-- An address that stands twice
select tap.throws_ok(format('select tap.post(''twice'', %L)', tap.state(1, '[' || tap.block('a') || ',' || tap.block('a', '"n":1') || ']')),
  'KLB01', 'the body has test.a more than once', 'is refused in a first document');
select tap.post('twice', tap.state(1, '[' || tap.block('a') || ']'));
select tap.throws_ok(format('select tap.post(''twice'', %L)', tap.state(2, '[' || tap.block('a') || ',' || tap.block('a', '"n":1') || ']')),
  'KLB01', 'the body has test.a more than once', 'where one of them is there already');
select tap.throws_ok(format('select tap.post(''twice'', %L)', tap.state(2, '[' || tap.block('a', '"n":1') || ',' || tap.block('a', '"n":2') || ']')),
  'KLB01', 'the body has test.a more than once', 'and where both are new');
select tap.throws_ok(format('select tap.post(''twice'', %L)', tap.state(2, replace('[' || tap.block('a', '}},{"deposed":"00000001","attributes":{"id":"1"}},{"deposed":"00000001","attributes":{"id":"2"') || ']', '"schema_version":0,', ''))),
  'KLB01', 'the body has test.a more than once', 'and so is a deposed key');
select tap.is((tap.post('twice', tap.state(2, '[' || tap.block('a') || ',' || tap.block('a', '', '', '"k"') || ']')) ->> 'created'), '1',
  'keys make addresses differ');

-- The lock matrix
select tap.throws_ok($$ select tap.post('prod', tap.state(2), 'x') $$, 'KLC01', null, 'an ID without a lock is refused');
select tap.lock('prod', 'x');
select tap.throws_ok($$ select tap.post('prod', tap.state(2)) $$, 'KLL01', null, 'no ID against a lock is refused');
select tap.throws_ok($$ select tap.post('prod', tap.state(2), 'y') $$, 'KLC01', null, 'another ID is refused');
select tap.lives_ok(
  $$ select tap.post('prod', tap.state(1, '[' || tap.block('b', '', 'module.m["x"]') || ']', '{}', 'other'), 'x') $$,
  'its holder may write any serial and lineage, as state push -force does');
select tap.is(
  (select e.payload ->> 'forced_over_serial' from kilolock.events e where e.kind = 'state_write' order by e.id desc limit 1), '1',
  'and the event says so');
select kilolock.release_lock(null, null, 'prod', 'x', '', null);

-- Force, and where a version is said to come from
select tap.throws_ok(
  $$ select kilolock.write_state(null, null, 'prod', null, tap.state(1), null, null, 'rollback') $$, 'KLB06', null,
  'a source that only the database gives is refused');
select tap.lock('prod', 'x');
select tap.throws_ok(
  $$ select kilolock.write_state(null, null, 'prod', null, tap.state(1), null, 'ann', 'import', true) $$, 'KLL01', null,
  'force does not pass a lock');
select kilolock.release_lock(null, null, 'prod', 'x', '', null);
select tap.throws_ok(
  $$ select kilolock.write_state(null, null, 'prod', null, tap.state(1), null, 'ann', 'import', false) $$, 'KLC04', null,
  'without force another lineage is refused');
select tap.lives_ok(
  $$ select kilolock.write_state(null, null, 'prod', null, tap.state(1), null, 'ann', 'import', true) $$, 'with it it is taken');
select tap.results_eq(
  $$ select e.actor, e.payload ->> 'source', e.payload ->> 'forced_over_lineage' from kilolock.events e where e.kind = 'state_write' order by e.id desc limit 1 $$,
  $$ values ('ann', 'import', 'other') $$, 'and the event says who forced it over what');

-- Secrets
select tap.post('secret', tap.state(1, '[' || replace(tap.block('a', '"password":"hunter2","deep":{"k":["hunter2"]}'),
  '"schema_version":0', '"schema_version":0,"sensitive_attributes":[[{"type":"get_attr","value":"password"}],[{"type":"get_attr","value":"deep"},{"type":"get_attr","value":"k"},{"type":"index","value":{"value":0,"type":"number"}}]]')
  || ']', '{"o":{"value":"hunter2","type":"string","sensitive":true}}'));
select tap.is_empty(
  $$ select 1 from kilolock.resources r where r.attributes::text like '%hunter2%'
     union all select 1 from kilolock.outputs o where o.value::text like '%hunter2%' $$,
  'sensitive values do not reach the query surface');
select tap.ok(
  (select r.attributes #>> '{deep,k,0,sensitive}' like 'sha256:%' from kilolock.resources r
   join kilolock.states s on s.id = r.state_id where s.name = 'secret'),
  'a digest stands for them');

-- Moves and ids
select tap.post('move', tap.state(1, '[' || tap.block('a') || ',' || tap.block('b') || ']'));
select tap.is((tap.post('move', tap.state(2, '[' || tap.block('b') || ',' || replace(tap.block('a'), '"name":"a"', '"name":"c"') || ']')) ->> 'moved'),
  '1', 'an object under a new address has moved');
select tap.is(
  (select count(distinct h.resource_id) from kilolock.resource_history h join kilolock.states s on s.id = h.state_id
   where s.name = 'move' and h.address in ('test.a', 'test.c')), 1::bigint, 'and keeps its id');

select tap.post('move', tap.state(3));
select tap.is(
  (tap.post('move', tap.state(4, '[' || tap.block('a') || ',' || tap.block('b') || ',' || replace(tap.block('a', '"n":1'), '"name":"a"', '"name":"c"') || ']'))
   ->> 'created'), '3', 'the old and the new address of what is gone can come back together');
select tap.is(
  (select count(distinct h.resource_id) from kilolock.resource_history h join kilolock.states s on s.id = h.state_id
   where s.name = 'move' and h.address = 'test.c'), 1::bigint, 'and the new one has its id again');

-- Encrypted documents
select tap.is(
  (tap.post('tofu', '{"serial":7,"lineage":"l","meta":{},"encrypted_data":"AAAA","encryption_version":"v0"}') ->> 'serial'), '7',
  'an encrypted state of OpenTofu is stored as it is');
select tap.is(
  (select d.encrypted from kilolock.version_documents d join kilolock.states s on s.id = d.state_id where s.name = 'tofu'), true,
  'and marked as encrypted');

-- What only looks different
select tap.post('look', tap.state(1, '[' || tap.block('a', '"n":1.0') || ']'));
select tap.is(
  (tap.post('look', tap.state(2, '[ ' || replace(tap.block('a', '"n": 1.00'), '"mode"', e'\n "mode"') || ' ]')) ->> 'updated'), '0',
  'layout and serial alone change no row');
select tap.is((select count(*) from kilolock.past_resources p join kilolock.states s on s.id = p.state_id where s.name = 'look'),
  0::bigint, 'and write no history');

-- Layouts that are like Terraform's
create function pg_temp.sorted(p_serial bigint, p_resources text) returns bytea language sql as $$
  select convert_to(replace(t.text, e'{\n  "version": 4,', e'{\n  "check_results": null,\n  "version": 4,'), 'UTF8')
  from kilolock._lay_out_document(replace(convert_from(tap.state(p_serial, p_resources), 'UTF8'), e',\n  "check_results": null', '')) t(text)
$$;
select tap.post('sorted', pg_temp.sorted(1, '[' || tap.block('a', '"n":1') || ']'));
select tap.is((tap.post('sorted', pg_temp.sorted(2, '[' || tap.block('a', '"n":2') || ']')) ->> 'updated'), '1',
  'with the keys in another order every change is seen');
select tap.is((tap.post('sorted', pg_temp.sorted(3, '[' || tap.block('b') || ']')) ->> 'deleted'), '1', 'the next too');
select tap.post('trap', convert_to(replace(t.text, '"a"', e'[\n        {\n          "k": 1\n        },\n        {}\n        ]'), 'UTF8'))
from kilolock._lay_out_document(convert_from(tap.state(1, '[' || replace(tap.block('b', '"x":"a"'), '"id":"b"', '"id":"1"') || ']'), 'UTF8')) t(text);
select tap.is(
  (select r.attributes ->> 'x' from kilolock.resources r join kilolock.states s on s.id = r.state_id where s.name = 'trap'),
  '[{"k": 1}, {}]', 'what looks like the end of an instance may stand inside of one');
select tap.is((tap.post('deep', tap.state(1, replace(e'[\n        {\n' || substr(tap.block('b'), 2) || ']', '}]}]', e'}]\n        }]'))) ->> 'created'),
  '1', 'and a resource may look like an instance');

-- What PostgreSQL cannot decode
select tap.post('odd', tap.state(1, '[' || tap.block('a', '"x":"a\u0000b","y":"\\u0000","z":"\ud800","e":1e400,"f":1e200000') || ']'));
select tap.results_eq(
  $$ select r.attributes ->> 'x', r.attributes ->> 'y', r.attributes ->> 'z', (r.attributes ->> 'e') = '1' || repeat('0', 400), r.attributes ->> 'f'
     from kilolock.resources r join kilolock.states s on s.id = r.state_id where s.name = 'odd' $$,
  $$ values (e'a\ufffdb', '\u0000', e'\ufffd', true, e'\ufffd') $$, 'only what jsonb cannot hold becomes U+FFFD');

-- Apply runs
select tap.post('res', tap.state(1));
select tap.run('ann', 'res');
select tap.acquire('ann', '{a}');
select tap.throws_ok($$ select tap.post('res', tap.state(2)) $$, 'KLL11', null, 'a write beside reserved addresses is refused');
select tap.throws_ok($$ select tap.post('res', tap.state(2), (select r.id from kilolock.apply_runs r where r.holder = 'ann')) $$, 'KLC01', null,
  'the ID of the run is no lock ID');
select tap.expire('ann');
select tap.lives_ok($$ select tap.post('res', tap.state(2)) $$, 'until their lease has ended');
select tap.is((select r.status from kilolock.apply_runs r where r.holder = 'ann'), 'aborted', 'which the write finds out');

rollback;
