-- kilolock.diff_at
begin;

create function pg_temp.hour(p_n integer) returns timestamptz language sql as $$ select timestamptz '2026-03-01 00:00+00' + p_n * interval '1 hour' $$;

-- prod is written at 1, 2 and 4, deleted at 6; new is written at 3
select tap.post('prod', tap.state(1, '[' || concat_ws(',', tap.block('a', '"n":1'), tap.block('b')) || ']'));
select tap.post('prod', tap.state(2, '[' || concat_ws(',', tap.block('a', '"n":2'), tap.block('b')) || ']'));
select tap.post('prod', tap.state(4, '[' || concat_ws(',', tap.block('a', '"n":4'), tap.block('c', '"n":4')) || ']'));
select tap.post('new', tap.state(3, '[' || tap.block('x') || ']'));
update kilolock.version_documents d set created_at = pg_temp.hour(d.serial::integer);
select kilolock.delete_state(null, null, 'prod', null, null);
update kilolock.events e set created_at = pg_temp.hour(6) where e.kind = 'state_delete';

select tap.results_eq(
  $$ select d.state, d.change, d.address, d.from_attributes ->> 'n', d.to_attributes ->> 'n', d.from_version, d.to_version
     from kilolock.diff_at(pg_temp.hour(1), pg_temp.hour(5)) d $$,
  $$ values ('new', 'state_create', null, null, null, null::bigint, 1::bigint), ('new', 'create', 'test.x', null, null, null, 1),
       ('prod', 'update', 'test.a', '1', '4', 1, 3), ('prod', 'delete', 'test.b', null, null, 1, 3),
       ('prod', 'create', 'test.c', null, '4', 1, 3) $$,
  'what changed in all states, and which came');
select tap.results_eq(
  $$ select d.state, d.change, d.address from kilolock.diff_at(pg_temp.hour(5), pg_temp.hour(7)) d $$,
  $$ values ('prod', 'state_delete', null), ('prod', 'delete', 'test.a'), ('prod', 'delete', 'test.c') $$, 'which went');
select tap.results_eq(
  $$ select d.state, d.change, d.address, d.from_attributes ->> 'n', d.to_attributes ->> 'n' from kilolock.diff_at(pg_temp.hour(2), pg_temp.hour(1)) d $$,
  $$ values ('prod', 'update', 'test.a', '2', '1') $$, 'the other way round too');
select tap.is_empty($$ select * from kilolock.diff_at(pg_temp.hour(0), pg_temp.hour(7)) d where d.state = 'prod' $$, 'what came and went in between does not show');
select tap.is_empty($$ select * from kilolock.diff_at(pg_temp.hour(8), pg_temp.hour(9)) d $$, 'nothing happened since');
select tap.post('prod', tap.state(9, '[' || concat_ws(',', tap.block('a', '"n":4'), tap.block('c', '"n":5')) || ']'));
update kilolock.version_documents d set created_at = pg_temp.hour(9) where d.serial = 9;
select tap.results_eq(
  $$ select d.state, d.change, d.address from kilolock.diff_at(pg_temp.hour(5), pg_temp.hour(9)) d $$,
  $$ values ('prod', 'update', 'test.c') $$, 'a state that was made again is compared with what it was');
select tap.results_eq(
  $$ select d.change, d.address from kilolock.diff_at(pg_temp.hour(7), pg_temp.hour(9)) d $$,
  $$ values ('state_create', null), ('create', 'test.a'), ('create', 'test.c') $$, 'or with nothing, as it was in between');
update kilolock.version_documents d set pruned_at = now() where d.serial = 2;
select tap.results_eq(
  $$ select d.change, d.address from kilolock.diff_at(pg_temp.hour(2), pg_temp.hour(5)) d where d.state = 'prod' $$,
  $$ values ('pruned', null) $$, 'where the past was pruned that is said');

rollback;
