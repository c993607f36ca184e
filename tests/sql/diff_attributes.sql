-- kilolock.diff_attributes
begin;

select tap.post('prod', tap.state(1, '[' || concat_ws(',', tap.block('a', '"n":1,"tags":{"Name":"x","keep":1}'), tap.block('b'), tap.block('c'), tap.block('same'),
  replace(tap.block('s', '"password":"one","user":"u"'), '"schema_version":0', '"schema_version":0,"sensitive_attributes":[[{"type":"get_attr","value":"password"}]]')) || ']',
  '{"o":{"value":{"a":1},"type":["object",{"a":"number"}]},"gone":{"value":1,"type":"number"},"s":{"value":"one","type":"string","sensitive":true},"same":{"value":1,"type":"number"}}'));
select tap.post('prod', tap.state(2, '[' || concat_ws(',', tap.block('a', '"n":2,"tags":{"Name":"y","keep":1}'), replace(tap.block('c', '"m":1'), '"name":"c"', '"name":"d"'), tap.block('e'),
  replace(tap.block('same'), '"schema_version":0', '"status":"tainted","schema_version":1'),
  replace(tap.block('s', '"password":"two","user":"u"'), '"schema_version":0', '"schema_version":0,"sensitive_attributes":[[{"type":"get_attr","value":"password"}]]')) || ']',
  '{"o":{"value":{"a":2},"type":["object",{"a":"number"}]},"new":{"value":"x","type":"string"},"s":{"value":"two","type":"string","sensitive":true},"same":{"value":1,"type":"number","sensitive":false}}'));

select tap.results_eq(
  $$ select d.kind, d.change, d.address, d.from_address, d.field, d.attribute, d.from_value::text, d.to_value::text
     from kilolock.diff_attributes('prod', '1', '2') d where not d.sensitive $$,
  $$ values ('resource', 'update', 'test.a', 'test.a', 'attributes', 'n', '1', '2'),
       ('resource', 'update', 'test.a', 'test.a', 'attributes', 'tags.Name', '"x"', '"y"'),
       ('resource', 'delete', 'test.b', 'test.b', 'attributes', '', '{"id": "b"}', null),
       ('resource', 'move', 'test.d', 'test.c', 'address', '', '"test.c"', '"test.d"'),
       ('resource', 'move', 'test.d', 'test.c', 'attributes', 'm', null, '1'),
       ('resource', 'create', 'test.e', null, 'attributes', '', null, '{"id": "e"}'),
       ('resource', 'update', 'test.same', 'test.same', 'schema_version', '', '"0"', '"1"'),
       ('resource', 'update', 'test.same', 'test.same', 'status', '', '"ready"', '"tainted"'),
       ('output', 'delete', 'gone', 'gone', 'value', '', '1', null),
       ('output', 'create', 'new', null, 'value', '', null, '"x"'),
       ('output', 'update', 'o', 'o', 'value', 'a', '1', '2') $$,
  'one row for each value that differs, outputs last');
select tap.results_eq(
  $$ select d.kind, d.address, d.attribute from kilolock.diff_attributes('prod', '@1', 'current') d where d.sensitive $$,
  $$ values ('resource', 'test.s', 'password'), ('output', 's', '') $$, 'secrets are marked');
select tap.is_empty(
  $$ select 1 from kilolock.diff_attributes('prod', '1', '2', true) d where d::text ~ '\y(one|two)\y' $$, 'and not shown');
select tap.results_eq(
  $$ select d.attribute, d.from_value::text, d.to_value::text from kilolock.diff_attributes('prod', '1', '2', true) d where d.address in ('test.b', 'test.e') $$,
  $$ values ('id', '"b"', null), ('id', null, '"e"') $$, 'on demand what came and went is told value by value');
select tap.results_eq(
  $$ select d.change, d.address from kilolock.diff_attributes('prod', '2', '1') d where d.address in ('test.b', 'test.e', 'new') $$,
  $$ values ('create', 'test.b'), ('delete', 'test.e'), ('delete', 'new') $$, 'and the other way round');
select tap.is_empty($$ select 1 from kilolock.diff_attributes('prod', 'current', '@0') d $$, 'a version does not differ from itself');
select tap.throws_ok($$ select * from kilolock.diff_attributes('prod', '1', 'x') $$, 'KLN03', null, 'an unknown version is refused');
select tap.throws_ok($$ select * from kilolock.diff_attributes('none', '1', '1') $$, 'KLN01', null, 'an unknown state too');

rollback;
