-- kilolock.remove_resources
begin;

create function pg_temp.rm(p_addresses jsonb, p_more jsonb default '{}') returns json language sql
as $$ select kilolock.remove_resources(jsonb_build_object('state', 'prod', 'addresses', p_addresses, 'who', 'ann@host') || p_more, null) $$;
create function pg_temp.left_over() returns text[] language sql
as $$ select array_agg(f.address || coalesce(' ' || f.deposed_key, '') order by f.ordinality) from kilolock.find_resources('prod') with ordinality f $$;

select tap.throws_ok($$ select pg_temp.rm('["test.a"]') $$, 'KLN01', null, 'a state that never was has nothing to remove');
select tap.post('prod', tap.state(7, '[' || concat_ws(',', tap.block('a'), tap.block('b', '},"dependencies":["test.a"],"x":{'),
  replace(tap.block('a'), '"schema_version"', '"deposed":"d1","schema_version"'), tap.block('c', '', '', '0'),
  replace(tap.block('c', '', '', '1'), '"provider":"p"', '"provider":"q"'), tap.block('a', '', 'module.m')) || ']'));

select tap.is(pg_temp.rm('["test.a"]') ->> 'applied', 'false', 'nothing is done unless it is said');
select tap.results_eq(
  $$ select c ->> 'change', c ->> 'address', c ->> 'deposed' from json_array_elements(pg_temp.rm('["test.a"]') -> 'changes') c $$,
  $$ values ('delete', 'test.a', null), ('delete', 'test.a', 'd1') $$, 'it tells what would go, deposed objects too');
select tap.is((pg_temp.rm('["test.a"]') -> 'dependents')::jsonb, '[{"address": "test.b", "depends_on": "test.a"}]', 'and what depends on it');
select tap.is(pg_temp.rm('["test.a"]', '{"apply": true, "base": 1}') ->> 'serial', '8', 'it goes');
select tap.is(pg_temp.left_over(), '{test.b,test.c[0],test.c[1],module.m.test.a}', 'and nothing else');
select tap.results_eq(
  $$ select d.source, d.actor, d.deleted_count from kilolock.version_documents d order by d.version desc limit 1 $$,
  $$ values ('state-engine', 'ann@host', 2) $$, 'as a version by whoever did it');
select tap.results_eq(
  $$ select e.payload ->> 'operation', e.payload -> 'addresses' from kilolock.events e order by e.id desc limit 1 $$,
  $$ values ('state rm', '["test.a"]'::jsonb) $$, 'the event says what was done');
select tap.is((select r.dependency_set_id is not null from kilolock.resources r where r.address = 'test.b'), true, 'lists of dependencies stay');
select pg_temp.rm('["test.c", "module.m"]', '{"apply": true}');
select tap.is(pg_temp.left_over(), '{test.b}', 'blocks and modules go with all in them');

select tap.lock('prod', 'x');
select tap.throws_ok($$ select pg_temp.rm('["test.b"]', '{"apply": true}') $$, 'KLL01', null, 'another''s lock stands in the way');
select tap.throws_ok($$ select pg_temp.rm('["test.b"]', '{"apply": true, "lock_id": "y"}') $$, 'KLC01', null, 'so does it with another ID');
select kilolock.release_lock(null, null, 'prod', 'x', '', null);
select tap.throws_ok($$ select pg_temp.rm('["test.b"]', '{"apply": true, "base": 1}') $$, 'KLC21', null, 'a head that moved on is kept');
select tap.throws_ok($$ select pg_temp.rm('["test.b", "test.a"]') $$, 'KLN04', null, 'what is not there is refused');
select tap.throws_ok(format('select pg_temp.rm(%L)', w), 'KLB06', null, 'no list of addresses: ' || w)
from (values ('[]'), ('null'), ('"test.b"'), ('[1]'), ('[["test.b"]]')) x(w);
select tap.throws_ok($$ select kilolock.remove_resources('{"addresses": ["test.b"]}', null) $$, 'KLB05', null, 'no state is refused');
select tap.post('tofu', '{"serial":7,"lineage":"l","encrypted_data":"AAAA"}');
select tap.throws_ok($$ select kilolock.remove_resources('{"state": "tofu", "addresses": ["test.b"]}', null) $$, 'KLN04', null,
  'an encrypted state shows no resources');

rollback;
