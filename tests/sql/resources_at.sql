-- kilolock.resources_at
begin;

select tap.post('prod', tap.state(1, '[' || tap.block('a', '"n":1') || ',' || tap.block('b') || ']'));
select tap.post('prod', tap.state(2, '[' || tap.block('a', '"n":2') || ']'));
update kilolock.version_documents d set created_at = timestamptz '2026-03-01 00:00+00' + d.version * interval '1 hour';
select tap.results_eq(
  $$ select r.address, r.attributes ->> 'n' from kilolock.resources_at('prod', 1) r order by 1 $$,
  $$ values ('test.a', '1'), ('test.b', null) $$, 'what there was then');
select tap.results_eq(
  $$ select r.address, r.attributes ->> 'n' from kilolock.resources_at('prod', 2) r $$, $$ values ('test.a', '2') $$, 'what there is now');
select tap.results_eq(
  $$ select r.address, r.attributes ->> 'n' from kilolock.resources_at('prod', timestamptz '2026-03-01 01:59+00') r order by 1 $$,
  $$ values ('test.a', '1'), ('test.b', null) $$, 'what there was at a moment');
select tap.is((select count(*) from kilolock.resources_at('prod', '@1') r), 2::bigint, 'a version may be written in any way');
select tap.is((select count(*) from kilolock.resources_at('prod', '2026-03-01 01:59+00') r), 2::bigint, 'a moment too');
select tap.throws_ok($$ select * from kilolock.resources_at('prod', 3) $$, 'KLN03', null, 'a version that never was is refused');
select tap.throws_ok($$ select * from kilolock.resources_at('prod', null::bigint) $$, 'KLN03', null, 'so is none');
select tap.throws_ok($$ select * from kilolock.resources_at('prod', timestamptz '2026-01-01') $$, 'KLN03', null, 'or a moment before the first');
select tap.throws_ok($$ select * from kilolock.resources_at('none', 1) $$, 'KLN01', null, 'an unknown state is refused');
select kilolock.delete_state(null, null, 'prod', null, null);
select tap.is((select count(*) from kilolock.resources_at('prod', 1) r), 2::bigint, 'the resources of a deleted state stay known');
select tap.throws_ok($$ select * from kilolock.resources_at('prod', clock_timestamp()) $$, 'KLN03', null, 'but not at a moment after that');

rollback;
