-- kilolock.find_version
begin;

select tap.post('prod', tap.state(7, '[' || tap.block('a') || ']'));
select tap.post('prod', tap.state(8));
select tap.results_eq(
  $$ select f.version, f.serial, f.source, f.actor, f.resource_count from kilolock.find_version('prod', '@1') f $$,
  $$ values (1::bigint, 7::numeric, 'apply', 'anonymous', 1) $$, 'a reference becomes a version');
select tap.is((select f.version from kilolock.find_version('prod', null) f), 2::bigint, 'none is the head');
select tap.throws_ok($$ select * from kilolock.find_version('prod', 'x') $$, 'KLN03', null, 'an unknown one is refused');
select tap.throws_ok($$ select * from kilolock.find_version('none', '1') $$, 'KLN01', null, 'an unknown state too');

rollback;
