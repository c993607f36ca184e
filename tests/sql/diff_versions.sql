-- kilolock.diff_versions
begin;

select tap.post('prod', tap.state(1, '[' || concat_ws(',', tap.block('a', '"n":1'), tap.block('b'), tap.block('c'), tap.block('same')) || ']'));
select tap.post('prod', tap.state(2, '[' || concat_ws(',', tap.block('a', '"n":2'), replace(tap.block('c'), '"name":"c"', '"name":"d"'), tap.block('e'), tap.block('same')) || ']'));
select tap.results_eq(
  $$ select d.change, d.address, d.from_address, d.from_attributes ->> 'n', d.to_attributes ->> 'n' from kilolock.diff_versions('prod', 1, 2) d $$,
  $$ values ('update', 'test.a', 'test.a', '1', '2'), ('delete', 'test.b', 'test.b', null, null), ('move', 'test.d', 'test.c', null, null), ('create', 'test.e', null, null, null) $$,
  'one row a resource that differs');
select tap.results_eq(
  $$ select d.change, d.address from kilolock.diff_versions('prod', 2, 1) d where d.change <> 'move' $$,
  $$ values ('update', 'test.a'), ('create', 'test.b'), ('delete', 'test.e') $$, 'and the other way round');
select tap.is_empty($$ select * from kilolock.diff_versions('prod', 1, 1) $$, 'a version does not differ from itself');
select tap.throws_ok($$ select * from kilolock.diff_versions('prod', 1, 9) $$, 'KLN03', null, 'a version that never was is refused');
select tap.throws_ok($$ select * from kilolock.diff_versions('none', 1, 9) $$, 'KLN01', null, 'so is a state');

-- Later versions say nothing about a difference between two that are past
select tap.post('prod', tap.state(3, '[' || concat_ws(',', tap.block('a', '"n":3'), tap.block('b'), tap.block('same')) || ']'));
select kilolock.delete_state(null, null, 'prod', null, null);
select tap.results_eq(
  $$ select d.change, d.address, d.from_attributes ->> 'n', d.to_attributes ->> 'n' from kilolock.diff_versions('prod', '1', '2') d $$,
  $$ values ('update', 'test.a', '1', '2'), ('delete', 'test.b', null, null), ('move', 'test.d', null, null), ('create', 'test.e', null, null) $$,
  'whatever came after, a difference stays what it was');
select tap.results_eq(
  $$ select d.change, d.address, d.from_attributes ->> 'n', d.to_attributes ->> 'n' from kilolock.diff_versions('prod', 1, 3) d $$,
  $$ values ('update', 'test.a', '1', '3'), ('delete', 'test.c', null, null) $$,
  'what went and came back in between does not differ');
select tap.post('prod', tap.state(4, '[' || concat_ws(',', tap.block('a', '"n":3'), tap.block('b'), replace(tap.block('same'), '"schema_version":0', '"status":"tainted","schema_version":1')) || ']'));
select tap.results_eq(
  $$ select d.change, d.address, d.from_status, d.to_status, d.from_schema_version, d.to_schema_version from kilolock.diff_versions('prod', '@1', 'current') d $$,
  $$ values ('update', 'test.same', 'ready', 'tainted', 0::bigint, 1::bigint) $$,
  'nor does what a deletion of the state took away and the next write brought back');

rollback;
