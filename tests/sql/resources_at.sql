-- kilolock.resources_at
begin;

select tap.post('prod', tap.state(1, '[' || tap.block('a', '"n":1') || ',' || tap.block('b') || ']'));
select tap.post('prod', tap.state(2, '[' || tap.block('a', '"n":2') || ']'));
select tap.results_eq(
  $$ select r.address, r.attributes ->> 'n' from kilolock.resources_at('prod', 1) r order by 1 $$,
  $$ values ('test.a', '1'), ('test.b', null) $$, 'what there was then');
select tap.results_eq(
  $$ select r.address, r.attributes ->> 'n' from kilolock.resources_at('prod', 2) r $$, $$ values ('test.a', '2') $$, 'what there is now');
select tap.throws_ok($$ select * from kilolock.resources_at('prod', 3) $$, 'KLN03', null, 'a version that never was is refused');
select tap.throws_ok($$ select * from kilolock.resources_at('none', 1) $$, 'KLN01', null, 'an unknown state is refused');

rollback;
