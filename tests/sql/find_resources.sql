-- kilolock.find_resources
begin;

select tap.post('prod', tap.state(1, '[' || concat_ws(',',
  tap.block('b', '', '', '10'), replace(tap.block('b', '', '', '9'), '"provider":"p"', '"provider":"q"'), tap.block('a'),
  replace(tap.block('z'), 'managed', 'data'),
  tap.block('a', '', 'module.m["x.y"]'), tap.block('a', '', 'module.m["x.y"].module.n'), tap.block('a', '', 'module.mm'),
  replace(tap.block('c'), '"schema_version"', '"deposed":"d1","schema_version"')) || ']'));

create function pg_temp.found(p_wanted text[] default null) returns text[] language sql
as $$ select array_agg(f.address || coalesce(' ' || f.deposed_key, '') order by f.ordinality) from kilolock.find_resources('prod', p_wanted) with ordinality f $$;

select tap.is(pg_temp.found(), array['data.test.z', 'test.a', 'test.b[9]', 'test.b[10]', 'test.c d1', 'module.m["x.y"].test.a',
  'module.mm.test.a', 'module.m["x.y"].module.n.test.a'], 'all, in the order of terraform state list');
select tap.is(pg_temp.found('{}'), pg_temp.found(), 'none given is all');
select tap.is(pg_temp.found('{test.a}'), '{test.a}', 'a resource without a key');
select tap.is(pg_temp.found('{test.b}'), '{test.b[9],test.b[10]}', 'a resource with all of its instances');
select tap.is(pg_temp.found('{test.b[10],data.test.z}'), '{data.test.z,test.b[10]}', 'several addresses');
select tap.is(pg_temp.found('{module.m}'), array['module.m["x.y"].test.a', 'module.m["x.y"].module.n.test.a'], 'a module with all of its instances');
select tap.is(pg_temp.found(array['module.m["x.y"].module.n']), array['module.m["x.y"].module.n.test.a'], 'a module inside another');
select tap.throws_ok($$ select pg_temp.found('{test.a,test.q}') $$, 'KLN04', 'state "prod" has no resource "test.q"', 'what is not there is named');
select tap.throws_ok($$ select pg_temp.found('{test}') $$, 'KLN04', null, 'half an address is none');
select tap.throws_ok($$ select kilolock.find_resources('nope') $$, 'KLN01', null, 'no such state');

rollback;
