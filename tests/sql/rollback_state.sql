-- kilolock.rollback_state
begin;

create function pg_temp.back(p_to text, p_more jsonb default '{}') returns json language sql
as $$ select kilolock.rollback_state(jsonb_build_object('state', 'prod', 'version', p_to, 'who', 'ann@host') || p_more, null) $$;
create function pg_temp.document(p_ref text) returns text language sql
as $$ select string_agg(convert_from(r.chunk, 'UTF8'), '') from kilolock.read_state(null, null, 'prod', p_ref) r $$;

select tap.throws_ok($$ select pg_temp.back('1') $$, 'KLN01', null, 'a state that never was cannot go back');
select tap.post('prod', tap.state(7, '[' || tap.block('a') || ',' || tap.block('b') || ']'));
select tap.post('prod', tap.state(8, '[' || tap.block('a', '"x":1') || ',' || tap.block('c') || ']'));
select tap.post('prod', tap.state(9));

select tap.is(pg_temp.back('2') ->> 'applied', 'false', 'nothing is done unless it is said');
select tap.is((select s.head_version from kilolock.states s), 3::bigint, 'and no version written');
select tap.results_eq(
  $$ select c ->> 'change', c ->> 'address' from json_array_elements(pg_temp.back('1') -> 'changes') c $$,
  $$ values ('create', 'test.a'), ('create', 'test.b') $$, 'it tells what would change');
select tap.is(pg_temp.back('1', '{"apply": true}') ->> 'serial', '10', 'the serial is above all that were');
select tap.is(pg_temp.document('current'), replace(pg_temp.document('1'), '"serial": 7', '"serial": 10'), 'all but the serial is as it was');
select tap.results_eq(
  $$ select d.version, d.source, d.actor from kilolock.version_documents d order by d.version desc limit 1 $$,
  $$ values (4::bigint, 'rollback', 'ann@host') $$, 'it is a version by whoever did it');
select tap.is(
  (select e.payload ->> 'rolled_back_to' from kilolock.events e order by e.id desc limit 1), '1', 'the event names where it went back to');
select tap.results_eq(
  $$ select c ->> 'change', c ->> 'address' from json_array_elements(pg_temp.back('2') -> 'changes') c $$,
  $$ values ('update', 'test.a'), ('delete', 'test.b'), ('create', 'test.c') $$, 'updates and deletions are told too');
select tap.is(pg_temp.back(v.ref, '{"apply": true}') ->> 'changed', 'false', 'there is nothing to do for ' || v.ref)
from (values ('current'), ('4'), ('1'), ('@3')) v(ref);
select tap.is((select s.head_version from kilolock.states s), 4::bigint, 'and nothing is done');

-- A serial that is lower than one before, as state push -force leaves it
select tap.lock('prod', 'x');
select tap.post('prod', tap.state(3, '[]', '{}', 'other'), 'x');
select tap.throws_ok($$ select pg_temp.back('1', '{"apply": true}') $$, 'KLL01', null, 'another''s lock stands in the way');
select tap.throws_ok($$ select pg_temp.back('1', '{"apply": true, "lock_id": "y"}') $$, 'KLC01', null, 'so does it with another ID');
select tap.is(pg_temp.back('1') ->> 'other_lineage', 'true', 'another lineage is told');
select tap.is(pg_temp.back('1', '{"apply": true, "lock_id": "x"}') ->> 'serial', '11', 'whoever holds the lock may go back');
select tap.is((select s.lineage from kilolock.states s), 'l', 'to another lineage too');
select kilolock.release_lock(null, null, 'prod', 'x', '', null);

-- What the caller saw
select tap.throws_ok($$ select pg_temp.back('2', '{"apply": true, "base": 5}') $$, 'KLC21', null, 'a head that moved on is not overwritten');
select tap.is(pg_temp.back('2', '{"apply": true, "base": "6"}') ->> 'applied', 'true', 'the head that was seen is');

-- A deleted state
select kilolock.delete_state(null, null, 'prod', null, null);
select tap.throws_ok($$ select pg_temp.back('1', '{"apply": true, "base": 7}') $$, 'KLC21', null, 'a deleted state is another than what was seen');
select tap.is((pg_temp.back('@1') -> 'from')::text, 'null', 'a deleted state has no head');
select tap.is(pg_temp.back('@1', '{"apply": true, "base": 0}') ->> 'version', '8', 'a deleted state comes back');
select tap.results_eq(
  $$ select r.address from kilolock.current_resources r order by 1 $$, $$ values ('test.a'), ('test.c') $$, 'with its resources');

-- What only looks different
select tap.post('prod', replace(convert_from(tap.state(99, '[' || tap.block('a') || ']'), 'UTF8'), e'\n', '')::bytea);
select tap.post('prod', tap.state(100, '[]', '{"serial":{"value":{"serial":1},"type":"string"}}'));
select tap.is(pg_temp.back('@1', '{"apply": true}') ->> 'serial', '101', 'a document in any layout goes back');
select tap.is(pg_temp.document('current'), replace(pg_temp.document('@2'), '"serial": 99', '"serial": 101'), 'with nothing else changed');
select pg_temp.back('@1', '{"apply": true}');
select tap.is(pg_temp.document('current'), replace(pg_temp.document('@2'), '"serial": 100', '"serial": 102'),
  'a serial inside an output is another matter');

-- Encrypted documents
select kilolock.write_state(null, null, 'prod', null, convert_to('{"serial":' || n || ',"lineage":"l","encrypted_data":"' || n || '"}', 'UTF8'), null, null)
from generate_series(200, 201) n;
select tap.is(pg_temp.back('serial:200', '{"apply": true}') ->> 'serial', '200', 'an encrypted document goes back with its serial');
select tap.is(pg_temp.document('current'), '{"serial":200,"lineage":"l","encrypted_data":"200"}', 'and all of its bytes');

select tap.throws_ok($$ select pg_temp.back('77') $$, 'KLN03', null, 'a version that never was is refused');
select tap.throws_ok($$ select pg_temp.back(null) $$, 'KLB06', null, 'no version is refused');
select tap.throws_ok($$ select pg_temp.back('1', '{"apply": "yes"}') $$, 'KLB06', null, 'an apply that is neither true nor false is refused');
select tap.throws_ok($$ select pg_temp.back('1', '{"base": "x"}') $$, 'KLB06', null, 'a base that is no number is refused');
select tap.throws_ok($$ select pg_temp.back('1', '{"lock_id": {}}') $$, 'KLB06', null, 'a lock ID that is no text is refused');
select tap.throws_ok($$ select kilolock.rollback_state('[]', null) $$, 'KLB06', null, 'no object is refused');
select tap.throws_ok($$ select kilolock.rollback_state('{"version": "1"}', null) $$, 'KLB05', null, 'no state is refused');

-- Outputs
select tap.post('outs', tap.state(1, '[]', '{"a": {"value": 1, "type": "number"}, "b": {"value": 1, "type": "number"}, "c": {"value": 1, "type": "number"}}'));
select tap.post('outs', tap.state(2, '[]', '{"a": {"value": 2, "type": "number"}, "c": {"value": 1, "type": "number"}, "d": {"value": "x", "type": "string", "sensitive": true}}'));
select tap.results_eq(
  $$ select c ->> 'change', c ->> 'address', c ->> 'type'
     from json_array_elements(kilolock.rollback_state('{"state": "outs", "version": "1"}', null) -> 'changes') c $$,
  $$ values ('update', 'output.a', 'output'), ('create', 'output.b', 'output'), ('delete', 'output.d', 'output') $$,
  'outputs that would change are told, and no others');
select kilolock.delete_state(null, null, 'outs', null, null);
select tap.results_eq(
  $$ select c ->> 'change', c ->> 'address'
     from json_array_elements(kilolock.rollback_state('{"state": "outs", "version": "2"}', null) -> 'changes') c $$,
  $$ values ('create', 'output.a'), ('create', 'output.c'), ('create', 'output.d') $$,
  'a deleted state gets its outputs back');

rollback;
