-- kilolock.rollback_resource
begin;

create function pg_temp.back(p_address text, p_to text, p_more jsonb default '{"apply": true}') returns json language sql
as $$ select kilolock.rollback_resource(jsonb_build_object('state', 'prod', 'address', p_address, 'version', p_to, 'who', 'ann@host') || p_more, null) $$;
create function pg_temp.there() returns text[] language sql
as $$ select array_agg(r.address || '=' || coalesce(r.attributes ->> 'x', '') order by r.address) from kilolock.current_resources r $$;
create function pg_temp.changes(p_address text, p_to text) returns text[] language sql
as $$ select array_agg(concat_ws(' ', c ->> 'change', c ->> 'from_address', c ->> 'address'))
      from json_array_elements(pg_temp.back(p_address, p_to, '{}') -> 'changes') c $$;

select tap.throws_ok($$ select pg_temp.back('test.a', '1') $$, 'KLN01', null, 'a state that never was has nothing to bring back');
select tap.post('prod', tap.state(1, '[' || concat_ws(',', tap.block('a', '"x":1'), tap.block('b', '"x":1'), tap.block('c', '"x":1', 'module.m')) || ']'));
select tap.post('prod', tap.state(2, '[' || concat_ws(',', tap.block('a', '"x":2'), tap.block('d', '"x":2'),
  tap.block('e', '"x":2},"dependencies":["test.a","test.b","test.d"],"y":{'), tap.block('c', '"x":2', 'module.m'), tap.block('f', '"x":2', 'module.m')) || ']'));

select tap.is(pg_temp.back('test.a', '1', '{}') ->> 'applied', 'false', 'nothing is done unless it is said');
select tap.is(pg_temp.changes('test.a', '1'), '{update test.a}', 'it tells what would change');
select tap.is((pg_temp.back('test.a', '1', '{}') -> 'dependents')::jsonb, '[{"address": "test.e", "depends_on": "test.a"}]', 'and what depends on it');
select tap.is(pg_temp.back('test.a', '1') ->> 'serial', '3', 'it goes back');
select tap.is(pg_temp.there(), '{module.m.test.c=2,module.m.test.f=2,test.a=1,test.d=2,test.e=2}', 'and nothing else');
select tap.is(pg_temp.back('test.a', '1') ->> 'changed', 'false', 'once there it stays');
select tap.is(pg_temp.back('test.e', 'current') ->> 'changed', 'false', 'what is so now needs nothing');
select tap.results_eq(
  $$ select d.source, d.actor, e.payload ->> 'operation', e.payload ->> 'address', e.payload ->> 'rolled_back_to'
     from kilolock.version_documents d cross join kilolock.events e order by d.version desc, e.id desc limit 1 $$,
  $$ values ('rollback', 'ann@host', 'rollback resource', 'test.a', '1') $$, 'the version and its event say so');

select tap.is(pg_temp.changes('test.b', '1'), '{create test.b}', 'what was deleted would come');
select tap.is((pg_temp.back('test.b', '1') -> 'dependents')::jsonb, '[{"address": "test.e", "depends_on": "test.b"}]', 'with what depends on it already');
select tap.is(pg_temp.changes('module.m', '1'), '{update module.m.test.c,"delete module.m.test.f"}', 'a module goes back with all in it');
select pg_temp.back('module.m', '1');
select tap.is(pg_temp.there(), '{module.m.test.c=1,test.a=1,test.b=1,test.d=2,test.e=2}', 'what was not there goes');

select tap.throws_ok($$ select pg_temp.back('test.d', '1', '{"strict": true}') $$, 'KLC23',
  'state "prod": "test.d" would go, and "test.e" depends on it', 'strict keeps what others depend on');
select tap.lives_ok($$ select pg_temp.back('test.a', '2', '{"strict": true}') $$, 'but not what stays');
select tap.is(pg_temp.back('test.d', '1') ->> 'applied', 'true', 'without it that goes too');

-- Moves: a resource is told by its id
select tap.post('prod', tap.state(50, '[' || tap.block('a', '"x":1') || ']'));
select kilolock.move_resource('{"state": "prod", "from": "test.a", "to": "test.z", "apply": true}', null);
select tap.is(pg_temp.changes('test.a', '@1'), '{move test.z test.a}', 'what has another address now goes back to its old one');
select tap.is(pg_temp.changes('test.z', '@1'), '{move test.z test.a}', 'by whichever name');
select tap.post('prod', tap.state(70, '[' || tap.block('a', '"x":1') || ']'));
select kilolock.move_resource('{"state": "prod", "from": "test.a", "to": "test.z", "apply": true}', null);
select tap.post('prod', tap.state(80, '[' || concat_ws(',', tap.block('n'), replace(tap.block('z', '"x":1'), '"id":"z"', '"id":"a"'),
  replace(tap.block('a', '"x":3'), '"id":"a"', '"id":"other"')) || ']'));
select tap.throws_ok($$ select pg_temp.back('test.z', 'serial:70') $$, 'KLC22', null, 'an address that another has now is not taken from it');
select tap.is(pg_temp.changes('test.a', 'serial:70'), '{"move test.z test.a","delete test.a"}', 'unless that goes back too');
select pg_temp.back('test.a', 'serial:70');
select tap.is(pg_temp.there(), '{test.a=1,test.n=}', 'both do');

select tap.lock('prod', 'x');
select tap.throws_ok($$ select pg_temp.back('test.n', 'serial:70') $$, 'KLL01', null, 'another''s lock stands in the way');
select tap.throws_ok($$ select pg_temp.back('test.n', 'serial:70', '{"apply": true, "lock_id": "y"}') $$, 'KLC01', null, 'so does it with another ID');
select kilolock.release_lock(null, null, 'prod', 'x', '', null);
select tap.throws_ok($$ select pg_temp.back('test.n', 'serial:70', '{"apply": true, "base": 1}') $$, 'KLC21', null, 'a head that moved on is kept');
select tap.throws_ok($$ select pg_temp.back('test.q', '1') $$, 'KLN04', null, 'a resource that never was is refused');
select tap.throws_ok($$ select pg_temp.back('test.n', '999') $$, 'KLN03', null, 'a version that never was is refused');
select tap.throws_ok($$ select pg_temp.back(null, '1') $$, 'KLB06', null, 'no address is refused');
select tap.throws_ok($$ select pg_temp.back('test.n', '1', '{"strict": 1}') $$, 'KLB06', null, 'a strict that is neither true nor false is refused');
select tap.throws_ok($$ select kilolock.rollback_resource('{"address": "test.n", "version": "1"}', null) $$, 'KLB05', null, 'no state is refused');
select tap.post('prod', '{"serial":700,"lineage":"l","encrypted_data":"AAAA"}');
select tap.throws_ok($$ select pg_temp.back('test.n', '@1') $$, 'KLC20', null, 'an encrypted state is refused');
select kilolock.delete_state(null, null, 'prod', null, null);
select tap.throws_ok($$ select pg_temp.back('test.n', '1') $$, 'KLN01', null, 'a deleted state is refused');

rollback;
