-- kilolock.blast_radius
begin;

select tap.post('prod', tap.state(1, '[' || concat_ws(',',
  tap.block('base'), tap.block('mid', '},"dependencies":["test.base"],"x":{"y":1'), tap.block('top', '},"dependencies":["test.base","test.mid"],"x":{"y":1'),
  tap.block('ring1', '},"dependencies":["test.ring2","test.top"],"x":{"y":1'), tap.block('ring2', '},"dependencies":["test.ring1"],"x":{"y":1'),
  tap.block('in', '', 'module.m["a"]'), tap.block('in', '', 'module.m["b"]'),
  tap.block('out', '},"dependencies":["module.m.test.in"],"x":{"y":1', 'module.m["a"]'),
  tap.block('out', '},"dependencies":["module.m.test.in"],"x":{"y":1', 'module.m["b"]'),
  tap.block('lone', '},"dependencies":["gone.x"],"x":{"y":1')) || ']'));
select tap.results_eq(
  $$ select b.address, b.depth from kilolock.blast_radius('prod', 'test.base') b order by b.depth, b.address $$,
  $$ values ('test.mid', 1), ('test.top', 1), ('test.ring1', 2), ('test.ring2', 3) $$, 'everything that depends on it, nearest first, each once');
select tap.results_eq(
  $$ select b.address from kilolock.blast_radius('prod', 'test.base', 1) b order by b.address $$,
  $$ values ('test.mid'), ('test.top') $$, 'no further than depth');
select tap.results_eq(
  $$ select b.address from kilolock.blast_radius('prod', 'module.m["a"].test.in') b $$,
  $$ values ('module.m["a"].test.out') $$, 'inside a module an edge stays in its instance');
select tap.results_eq(
  $$ select b.address from kilolock.blast_radius('prod', 'test.ring2') b $$, $$ values ('test.ring1') $$, 'a ring ends');
select tap.throws_ok($$ select * from kilolock.blast_radius('prod', 'test.none') $$, 'KLN04', null, 'an unknown address is refused');
select tap.throws_ok($$ select * from kilolock.blast_radius('none', 'test.none') $$, 'KLN01', null, 'an unknown state is refused');

rollback;
