-- kilolock.current_drift, kilolock.current_resource_drift
begin;

create function pg_temp.write(p_source text, p_serial bigint, variadic p_blocks text[])
  returns json
  language sql
as $$
  select kilolock.write_state(null, null, 'prod', null, tap.state(p_serial, '[' || concat_ws(',', variadic p_blocks) || ']'), null, 'ann', p_source)::json
$$;
-- A write of any source, as the commands that have it make one.
create function pg_temp.write_as(p_source text, p_serial bigint, variadic p_blocks text[])
  returns json
  language sql
as $$
  select kilolock._write_document(s, d.text, octet_length(d.text), md5(d.text), p_source, 'ann')
  from kilolock.states s, (select convert_from(tap.state(p_serial, '[' || concat_ws(',', variadic p_blocks) || ']'), 'UTF8') as text) d
$$;
create view pg_temp.drift as
select d.address, d.previous_attributes ->> 'n' as old, d.current_attributes ->> 'n' as new, d.detected_at_serial as serial
from kilolock.current_resource_drift d
order by d.address;
create view pg_temp.all_drift as
select d.change, d.address, d.previous_attributes ->> 'n' as old, d.current_attributes ->> 'n' as new, d.detected_in as version
from kilolock.current_drift d
order by d.address;

select pg_temp.write('apply', 1, tap.block('a', '"n":1'), tap.block('b', '"n":1'), tap.block('c'), tap.block('d', '"n":1'));
select tap.is_empty('select * from pg_temp.drift', 'an apply is no drift');
select pg_temp.write('refresh', 2, tap.block('a', '"n":2'), tap.block('b', '"n":1'), tap.block('d', '"n":1'));
select tap.results_eq('select * from pg_temp.drift', $$ values ('test.a', '1', '2', 2::numeric) $$,
  'a live resource that a refresh changed has drifted');
select tap.results_eq('select * from pg_temp.all_drift',
  $$ values ('update', 'test.a', '1', '2', 2::bigint), ('delete', 'test.c', null, null, 2) $$, 'and one that is gone too');
select tap.results_eq(
  $$ select v.version, v.source, d.state_name, d.type, d.mode, d.module_path, d.detected_at = v.created_at
     from kilolock.current_resource_drift d join kilolock.state_versions v on v.id = d.detected_in_version_id $$,
  $$ values (2::bigint, 'refresh', 'prod', 'test', 'managed', '', true) $$, 'the version that detected it is found by its id');

select tap.results_eq(
  $$ select u.who, u.status, u.base_version, u.version, u.drifted_count, u.finished_at is not null
     from kilolock.refresh_runs u join kilolock.current_resource_drift d on d.refresh_run_id = u.id $$,
  $$ values ('ann', 'drifted', 1::bigint, 2::bigint, 2, true) $$, 'a refreshed document that came by import has a run too');

select pg_temp.write('refresh', 3, tap.block('a', '"n":2'), tap.block('b', '"n":5'), tap.block('d', '"n":1'));
select tap.results_eq('select * from pg_temp.drift',
  $$ values ('test.a', '1', '2', 2::numeric), ('test.b', '1', '5', 3::numeric) $$, 'a later refresh adds to it');
select tap.results_eq(
  $$ select v.version from kilolock.current_resource_drift d join kilolock.state_versions v on v.id = d.detected_in_version_id order by d.address $$,
  $$ values (2::bigint), (3) $$, 'the version that detected it is found when it is the head no more');
select pg_temp.write('refresh', 4, tap.block('a', '"n":3'), tap.block('b', '"n":1'), tap.block('c'), tap.block('d', '"n":1'));
select tap.results_eq('select * from pg_temp.all_drift', $$ values ('update', 'test.a', '1', '3', 4::bigint) $$,
  'two changes show as one, and what went back, or came back, has not drifted');

select pg_temp.write_as('rollback', 5, tap.block('a', '"n":1'), tap.block('b', '"n":1'), tap.block('c'), tap.block('d', '"n":1'));
select tap.is_empty('select * from pg_temp.drift', 'a rollback that puts the resource right ends its drift');

select pg_temp.write('refresh', 6, tap.block('a', '"n":7'), tap.block('b', '"n":7'), tap.block('d', '"n":1'));
select pg_temp.write_as('rollback', 7, tap.block('a', '"n":1'), tap.block('b', '"n":7'), tap.block('d', '"n":1'));
select pg_temp.write_as('state-engine', 8, tap.block('a', '"n":1'), tap.block('b', '"n":7'), tap.block('d', '"n":9'));
select tap.results_eq('select * from pg_temp.all_drift',
  $$ values ('update', 'test.b', '1', '7', 6::bigint), ('delete', 'test.c', null, null, 6) $$,
  'a write of some resources leaves the drift of the others');
select pg_temp.write('apply', 9, tap.block('a', '"n":1'), tap.block('b', '"n":7'), tap.block('d', '"n":8'));
select tap.is_empty('select * from pg_temp.all_drift', 'an apply accepts what it leaves as it is');
select pg_temp.write('refresh', 10, tap.block('a', '"n":1'), tap.block('b', '"n":8'), tap.block('d', '"n":8'));
select tap.results_eq('select * from pg_temp.all_drift', $$ values ('update', 'test.b', '7', '8', 10::bigint) $$,
  'the next drift is measured from what was accepted');
select pg_temp.write('apply', 11, tap.block('a', '"n":1'), tap.block('b', '"n":7'), tap.block('d', '"n":8'));

select pg_temp.write('refresh', 12, tap.block('a', '"n":1,"fresh":null'), tap.block('b', '"n":7}, "private": "eA==", "dependencies": ["test.a"], "identity": {"x": 1'), tap.block('d', '"n":8'));
select tap.is_empty('select * from pg_temp.all_drift', 'new attributes without a value, dependencies and private data are no drift');

select pg_temp.write('refresh', 13, tap.block('a', '"n":1'), tap.block('b', '"n":7'), tap.block('d', '"n":8'), tap.block('new', '"n":1'));
select pg_temp.write('refresh', 14, tap.block('a', '"n":1'), tap.block('b', '"n":7'), tap.block('d', '"n":8'), tap.block('new', '"n":2'));
select tap.results_eq('select * from pg_temp.all_drift', $$ values ('create', 'test.new', null, '2', 14::bigint) $$, 'what a refresh found is new');
select tap.results_eq('select * from pg_temp.drift', $$ values ('test.new', null, '2', 14::numeric) $$, 'and has nothing before it');
select pg_temp.write('refresh', 15, tap.block('a', '"n":1'), tap.block('b', '"n":7'), tap.block('d', '"n":8'));
select tap.is_empty('select * from pg_temp.all_drift', 'what came and went has not drifted');

select pg_temp.write('refresh', 16, replace(tap.block('a', '"n":1'), '"schema_version"', '"status":"tainted","schema_version"'), tap.block('b', '"n":7'), replace(tap.block('d', '"n":8'), '"name":"d"', '"name":"e"'));
select tap.results_eq(
  $$ select d.change, d.address, d.previous_address, d.previous_status, d.current_status from kilolock.current_drift d order by d.address $$,
  $$ values ('update', 'test.a', 'test.a', 'ready', 'tainted'), ('move', 'test.e', 'test.d', 'ready', 'ready') $$, 'a status and an address can drift');

select kilolock.delete_state(null, null, 'prod', null, null);
select tap.is_empty('select * from pg_temp.all_drift', 'a deleted state has no drift');
select pg_temp.write('apply', 1, tap.block('a', '"n":1'));
select tap.is_empty('select * from pg_temp.all_drift', 'nor has the one that follows it');

select kilolock.write_state(null, null, 'new', null, tap.state(1, '[' || tap.block('a') || ']'), null, null, 'refresh');
select tap.results_eq($$ select d.state_name, d.change, d.address from kilolock.current_drift d $$, $$ values ('new', 'create', 'test.a') $$,
  'a state that a refresh began has all its resources from it');
set local role kilolock_reader;
select tap.ok((select count(*) = 1 from kilolock.current_resource_drift), 'a reader may ask');

rollback;
