-- kilolock.move_resource
begin;

create function pg_temp.mv(p_from text, p_to text, p_more jsonb default '{"apply": true}') returns json language sql
as $$ select kilolock.move_resource(jsonb_build_object('state', 'prod', 'from', p_from, 'to', p_to, 'who', 'ann@host') || p_more, null) $$;
create function pg_temp.there() returns text[] language sql
as $$ select array_agg(f.address || coalesce(' ' || f.deposed_key, '') order by f.ordinality) from kilolock.find_resources('prod') with ordinality f $$;
create function pg_temp.needs(p_address text) returns text[] language sql
as $$ select d.addresses from kilolock.resources r join kilolock.dependency_sets d on d.id = r.dependency_set_id where r.address = p_address $$;
create function pg_temp.document() returns json language sql
as $$ select string_agg(convert_from(r.chunk, 'UTF8'), '')::json from kilolock.read_state(null, null, 'prod') r $$;

select tap.throws_ok($$ select pg_temp.mv('test.a', 'test.b') $$, 'KLN01', null, 'a state that never was has nothing to move');
select tap.post('prod', tap.state(7, '[' || concat_ws(',',
  tap.block('base'), replace(tap.block('base'), '"schema_version"', '"deposed":"d1","schema_version"'),
  replace(tap.block('pool', '', '', '0'), ']}', ',{"index_key":1,"schema_version":0,"attributes":{"id":"p1"}}]}'),
  tap.block('user', '},"dependencies":["test.base","test.pool"],"x":{'),
  replace(tap.block('old'), 'managed', 'data')) || ']'));

select tap.is(pg_temp.mv('test.base', 'module.n["a"].test.base', '{}') ->> 'applied', 'false', 'nothing is done unless it is said');
select tap.results_eq(
  $$ select c ->> 'change', c ->> 'from_address', c ->> 'address', c ->> 'deposed'
     from json_array_elements(pg_temp.mv('test.base', 'module.n["a"].test.base', '{}') -> 'changes') c $$,
  $$ values ('move', 'test.base', 'module.n["a"].test.base', null), ('move', 'test.base', 'module.n["a"].test.base', 'd1') $$,
  'it tells what would move, deposed objects too');
select tap.is((pg_temp.mv('test.base', 'module.n["a"].test.base', '{}') -> 'followers')::jsonb, '["test.user"]', 'and what follows');

create temporary table id as select r.id, r.address from kilolock.resources r;
select tap.is(pg_temp.mv('test.base', 'module.n["a"].test.base') ->> 'serial', '8', 'it moves');
select tap.is(pg_temp.there(), array['data.test.old', 'test.pool[0]', 'test.pool[1]', 'test.user', 'module.n["a"].test.base', 'module.n["a"].test.base d1'],
  'into a module that was not there');
select tap.is(pg_temp.needs('test.user'), '{module.n.test.base,test.pool}', 'dependencies follow, without keys');
select tap.results_eq(
  $$ select d.source, d.actor from kilolock.version_documents d order by d.version desc limit 1 $$,
  $$ values ('state-engine', 'ann@host') $$, 'as a version by whoever did it');
select tap.results_eq(
  $$ select e.payload ->> 'operation', e.payload ->> 'from', e.payload ->> 'to' from kilolock.events e order by e.id desc limit 1 $$,
  $$ values ('state mv', 'test.base', 'module.n["a"].test.base') $$, 'the event says what was done');

select pg_temp.mv('test.pool[0]', 'test.pool["a.b[\"c\"]"]');
select tap.is(pg_temp.there(), array['data.test.old', 'test.pool[1]', 'test.pool["a.b[\"c\"]"]', 'test.user', 'module.n["a"].test.base',
  'module.n["a"].test.base d1'], 'from a number to a string');
select pg_temp.mv('test.pool[1]', 'test.single');
select tap.is(pg_temp.needs('test.user'), '{module.n.test.base,test.pool,test.single}',
  'where some instances move, dependents depend on both names');
select pg_temp.mv('test.pool', 'module.n["a"].module.q.test.pool');
select tap.is(pg_temp.needs('test.user'), '{module.n.module.q.test.pool,module.n.test.base,test.single}', 'a block moves with its instances');
select pg_temp.mv('module.n["a"]', 'module.z');
select tap.is(pg_temp.there(), array['data.test.old', 'test.single', 'test.user', 'module.z.test.base', 'module.z.test.base d1',
  'module.z.module.q.test.pool["a.b[\"c\"]"]'], 'a module moves with all in it');
select tap.is(pg_temp.needs('test.user'), '{module.z.module.q.test.pool,module.z.test.base,test.single}', 'and is followed');
select pg_temp.mv('data.test.old', 'data.test.new');
select pg_temp.mv('module.z', 'module.z[0]');
select tap.is(pg_temp.there(), array['data.test.new', 'test.single', 'test.user', 'module.z[0].test.base', 'module.z[0].test.base d1',
  'module.z[0].module.q.test.pool["a.b[\"c\"]"]'], 'data sources and keys of modules move too');

select tap.throws_ok(format('select pg_temp.mv(%L, %L)', m.old, m.new), m.code, null, m.rule)
from (values
  ('test.single', 'test.user', 'KLC22', 'a taken address is refused'),
  ('test.nope', 'test.x', 'KLN04', 'what is not there is refused'),
  ('test.single', 'other.single', 'KLB21', 'another type is refused'),
  ('test.single', 'data.test.single', 'KLB21', 'a data source is nothing managed'),
  ('data.test.new', 'test.new', 'KLB21', 'nor the other way round'),
  ('test.single', 'module.q', 'KLB21', 'a resource is no module'),
  ('module.z', 'test.z', 'KLB21', 'a module is no resource'),
  ('module.z', 'module.y["k"]', 'KLB21', 'several instances cannot have one key'),
  ('module.z[0].module.q.test.pool', 'test.pool[0]', 'KLB21', 'neither can those of a resource'),
  ('test.single', 'test.single', 'KLB21', 'the same address is refused'),
  ('test', 'test.x', 'KLB21', 'half an address is refused'),
  ('test.single', 'test.x[', 'KLB21', 'an open bracket is refused'),
  ('test.single', 'test.x["a]', 'KLB21', 'an open quote is refused'),
  ('test.single', 'test.x["\q"]', 'KLB21', 'an escape that is none is refused'),
  ('test.single', 'module.', 'KLB21', 'a module without a name is refused'),
  ('test.single', '', 'KLB21', 'nothing is refused'),
  ('test.single', 'test.x[-1]', 'KLB21', 'a negative key is refused'),
  ('test.single', 'module.a.test.x.', 'KLB21', 'a dot too many is refused')
) m(old, new, code, rule);
select tap.post('prod', tap.state(90, '[' || tap.block('a') || ',' || replace(tap.block('b', '', '', '0'), '"provider":"p"', '"provider":"q"') || ']'));
select tap.throws_ok($$ select pg_temp.mv('test.a', 'test.b[1]') $$, 'KLC22', null, 'a resource with another provider is refused');

select tap.lock('prod', 'x');
select tap.throws_ok($$ select pg_temp.mv('test.a', 'test.c') $$, 'KLL01', null, 'another''s lock stands in the way');
select tap.throws_ok($$ select pg_temp.mv('test.a', 'test.c', '{"apply": true, "lock_id": "y"}') $$, 'KLC01', null, 'so does it with another ID');
select tap.lives_ok($$ select pg_temp.mv('test.a', 'test.c', '{"apply": true, "lock_id": "x"}') $$, 'its holder may move');
select kilolock.release_lock(null, null, 'prod', 'x', '', null);
select tap.throws_ok($$ select pg_temp.mv('test.c', 'test.d', '{"apply": true, "base": 1}') $$, 'KLC21', null, 'a head that moved on is kept');
select tap.throws_ok($$ select kilolock.move_resource('{"state": "prod", "from": "test.c"}', null) $$, 'KLB06', null, 'no destination is refused');
select tap.throws_ok($$ select kilolock.move_resource('{"from": "test.c", "to": "test.d"}', null) $$, 'KLB05', null, 'no state is refused');

rollback;
