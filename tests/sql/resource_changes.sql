-- kilolock.resource_changes
begin;

create function pg_temp.life(p_address text) returns table (version bigint, actor text, source text, change text, address text, field text, attribute text, f text, t text)
language sql as $$
  select c.version, c.actor, c.source, c.change, c.address, c.field, c.attribute, c.from_value::text, c.to_value::text
  from kilolock.resource_changes('prod', p_address) c
$$;
create function pg_temp.post(p_actor text, p_serial bigint, p_resources text) returns text language sql
as $$ select kilolock.write_state(null, null, 'prod', null, tap.state(p_serial, '[' || p_resources || ']'), null, p_actor) $$;

select pg_temp.post('ann', 1, tap.block('a', '"n":1') || ',' || tap.block('other'));
select pg_temp.post('bob', 2, tap.block('a', '"n":2,"m":{"k":[1]}') || ',' || tap.block('other'));
select pg_temp.post('ann', 3, tap.block('a', '"n":2,"m":{"k":[1]}') || ',' || tap.block('other', '"z":1'));
select pg_temp.post('cat', 4, replace(tap.block('a', '"n":3,"m":{"k":[1]}'), '"name":"a"', '"name":"b"') || ',' || tap.block('other', '"z":1'));
select pg_temp.post('dan', 5, tap.block('other', '"z":1'));
select tap.results_eq(
  $$ select * from pg_temp.life('test.a') $$,
  $$ values (1::bigint, 'ann', 'apply', 'create', 'test.a', 'attributes', '', null, '{"n": 1, "id": "a"}'),
       (2, 'bob', 'apply', 'update', 'test.a', 'attributes', 'm', null, '{"k": [1]}'),
       (2, 'bob', 'apply', 'update', 'test.a', 'attributes', 'n', '1', '2'),
       (4, 'cat', 'apply', 'move', 'test.b', 'address', '', '"test.a"', '"test.b"'),
       (4, 'cat', 'apply', 'move', 'test.b', 'attributes', 'n', '2', '3'),
       (5, 'dan', 'apply', 'delete', 'test.b', 'attributes', '', '{"m": {"k": [1]}, "n": 3, "id": "a"}', null) $$,
  'a life from its beginning to its end, through a move');
select tap.results_eq($$ select * from pg_temp.life('test.a') $$, $$ select * from pg_temp.life('test.b') $$, 'by each of its addresses');

-- Deleted with its state, and made again
select kilolock.delete_state(null, null, 'prod', null, 'eve');
select tap.results_eq(
  $$ select l.version, l.actor, l.source, l.change from pg_temp.life('test.other') l $$,
  $$ values (1::bigint, 'ann', 'apply', 'create'), (3, 'ann', 'apply', 'update'), (6, 'eve', 'delete', 'delete') $$,
  'what went with its state was deleted by who deleted that');
select pg_temp.post('fay', 6, tap.block('other', '"z":2'));
select tap.results_eq(
  $$ select l.version, l.actor, l.source, l.change, l.t from pg_temp.life('test.other') l where l.version = 6 $$,
  $$ values (6::bigint, 'eve', 'delete', 'delete', null), (6, 'fay', 'apply', 'create', '{"z": 2, "id": "other"}') $$,
  'and who made it again made it anew');
select tap.results_eq(
  $$ select h.actor, h.source, h.change from kilolock.resource_history h where h.address = 'test.other' and h.from_version = 6 order by 1 $$,
  $$ values ('eve', 'delete', 'delete'), ('fay', 'apply', 'create') $$, 'resource_history says the same');

-- A change without a value, a secret, a taint
select pg_temp.post('gus', 7, replace(tap.block('other', '"z":2'), '"schema_version":0', '"private":"eA==","schema_version":0'));
select pg_temp.post('gus', 8, replace(tap.block('other', '"z":"hunter2"'), '"schema_version":0', '"private":"eA==","status":"tainted","schema_version":0,"sensitive_attributes":[[{"type":"get_attr","value":"z"}]]'));
select tap.results_eq(
  $$ select c.version, c.field, c.attribute, c.sensitive from kilolock.resource_changes('prod', 'test.other') c where c.version > 6 and c.field is distinct from 'sensitive_paths' $$,
  $$ values (7::bigint, null, null, null), (8, 'status', '', false), (8, 'attributes', 'z', true) $$,
  'a change that no column shows is a row without a value');
select tap.is_empty($$ select 1 from kilolock.resource_changes('prod', 'test.other') c where c::text like '%hunter2%' $$, 'no secret is shown');

select tap.throws_ok($$ select * from pg_temp.life('test.none') $$, 'KLN04', null, 'an address that never was is refused');
select tap.throws_ok($$ select * from kilolock.resource_changes('none', 'test.a') $$, 'KLN01', null, 'so is a state');

rollback;
