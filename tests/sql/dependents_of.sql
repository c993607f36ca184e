-- kilolock.dependents_of
begin;

select tap.post('prod', tap.state(1, '[' || concat_ws(',', tap.block('base'), tap.block('other'),
  tap.block('top', '},"dependencies":["test.base","test.base","gone.x"],"x":{"y":1')) || ']'));
select tap.results_eq(
  $$ select d.address from kilolock.dependents_of('prod', 'test.base') d $$, $$ values ('test.top') $$, 'one hop, each once, names without rows left out');
select tap.is_empty($$ select d.address from kilolock.dependents_of('prod', 'test.other') d $$, 'nothing where there is nothing');
select tap.throws_ok($$ select * from kilolock.dependents_of('prod', 'test.none') $$, 'KLN04', null, 'an unknown address is refused');
select tap.throws_ok($$ select * from kilolock.dependents_of('none', 'test.none') $$, 'KLN01', null, 'an unknown state is refused');

rollback;
