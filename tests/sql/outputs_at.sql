-- kilolock.outputs_at
begin;

select tap.post('prod', tap.state(1, '[]', '{"a":{"value":1,"type":"number"},"s":{"value":"hunter2","type":"string","sensitive":true}}'));
select tap.post('prod', tap.state(2, '[]', '{"a":{"value":[2],"type":["list","number"]},"s":{"value":"hunter2","type":"string","sensitive":true}}'));
select tap.post('prod', tap.state(3, '[' || tap.block('x') || ']', '{"b":{"value":3,"type":"number"}}'));
update kilolock.version_documents d set created_at = timestamptz '2026-03-01 00:00+00' + d.version * interval '1 hour';
select tap.results_eq(
  $$ select o.name, o.value, o.since_version from kilolock.outputs_at('prod', 2) o where not o.sensitive $$,
  $$ values ('a', '[2]'::jsonb, 2::bigint) $$, 'what they were then');
select tap.results_eq(
  $$ select o.name, o.value from kilolock.outputs_at('prod', 3) o $$, $$ values ('b', '3'::jsonb) $$, 'what they are now');
select tap.results_eq(
  $$ select o.name, o.value from kilolock.outputs_at('prod', timestamptz '2026-03-01 01:30+00') o where o.name = 'a' $$,
  $$ values ('a', '1'::jsonb) $$, 'what they were at a moment');
select tap.results_eq(
  $$ select o.name, o.value from kilolock.outputs_at('prod', '@0') o $$, $$ values ('b', '3'::jsonb) $$, 'a version may be written in any way');
select tap.is_empty(
  $$ select * from kilolock.outputs_at('prod', 1) o join kilolock.outputs_at('prod', 2) t on t.name = o.name
     where o.sensitive and (o.value is distinct from t.value or o.value::text like '%hunter2%') $$,
  'a sensitive value is a digest, the same while it is the same');
select kilolock.delete_state(null, null, 'prod', null, null);
select tap.is((select count(*) from kilolock.outputs_at('prod', 2) o), 2::bigint, 'the outputs of a deleted state stay known');
select tap.post('prod', tap.state(4, '[]', '{"b":{"value":3,"type":"number"}}'));
select tap.results_eq(
  $$ select v.n, (select o.since_version from kilolock.outputs_at('prod', v.n) o) from generate_series(3, 4) v(n) $$,
  $$ values (3, 3::bigint), (4, 4) $$, 'made again they are others');
select tap.throws_ok($$ select * from kilolock.outputs_at('prod', 9) $$, 'KLN03', null, 'a version that never was is refused');
select tap.throws_ok($$ select * from kilolock.outputs_at('prod', null::bigint) $$, 'KLN03', null, 'so is none');
select tap.throws_ok($$ select * from kilolock.outputs_at('prod', timestamptz '2026-01-01') $$, 'KLN03', null, 'or a moment before the first');
select tap.throws_ok($$ select * from kilolock.outputs_at('prod', null::timestamptz) $$, 'KLN03', null, 'or no moment');
select tap.throws_ok($$ select * from kilolock.outputs_at('none', 1) $$, 'KLN01', null, 'an unknown state is refused');

rollback;
