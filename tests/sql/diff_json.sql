-- kilolock.diff_json
begin;

create function pg_temp.diff(p_from jsonb, p_to jsonb) returns table (attribute text, path text, f text, t text, sensitive boolean) language sql
as $$ select d.attribute, d.path::text, d.from_value::text, d.to_value::text, d.sensitive from kilolock.diff_json(p_from, p_to) d order by 1 $$;

select tap.is_empty($$ select * from pg_temp.diff('{"a":[1,{"b":null}]}', '{"a":[1.0,{"b":null}]}') $$, 'equal values do not differ');
select tap.is_empty($$ select * from pg_temp.diff(null, null) $$, 'nor does nothing');
select tap.results_eq(
  $$ select * from pg_temp.diff('{"same":1,"a":1,"gone":[],"t":{"Name":"x","k":{"z":1}}}', '{"same":1,"a":"1","t":{"Name":"y","k":{"z":1}},"new":null}') $$,
  $$ values ('a', '["a"]', '1', '"1"', false), ('gone', '["gone"]', '[]', null, false), ('new', '["new"]', null, 'null', false),
       ('t.Name', '["t", "Name"]', '"x"', '"y"', false) $$,
  'objects differ key by key, deep down, and null is not nothing');
select tap.results_eq(
  $$ select * from pg_temp.diff('{"l":[{"p":1},2,3]}', '{"l":[{"p":2},2]}') $$,
  $$ values ('l[0].p', '["l", 0, "p"]', '1', '2', false), ('l[2]', '["l", 2]', '3', null, false) $$, 'arrays differ place by place');
select tap.results_eq(
  $$ select d.attribute from pg_temp.diff('{}', '{"a.b":1,"":2,"0":3,"x\"y":4,"k-1":5}') d order by d.attribute collate "C" $$,
  $$ values ('[""]'), ('["0"]'), ('["a.b"]'), ('["x\"y"]'), ('k-1') $$, 'keys that are no names are quoted');
select tap.results_eq(
  $$ select * from pg_temp.diff('{"a":{"b":1}}', '{"a":[1]}') $$, $$ values ('a', '["a"]', '{"b": 1}', '[1]', false) $$,
  'values of two kinds differ as a whole');
select tap.results_eq(
  $$ select * from pg_temp.diff(null, '{"b":1}') $$, $$ values ('', '[]', null, '{"b": 1}', false) $$, 'so does something from nothing');
select tap.results_eq(
  $$ select * from pg_temp.diff('{"p":{"sensitive":"sha256:1"},"q":{"sensitive":"sha256:1"},"r":"x"}', '{"p":{"sensitive":"sha256:2"},"q":{"sensitive":"sha256:1"},"r":{"sensitive":"sha256:3"}}') $$,
  $$ values ('p', '["p"]', '{"sensitive": "sha256:1"}', '{"sensitive": "sha256:2"}', true), ('r', '["r"]', '"x"', '{"sensitive": "sha256:3"}', true) $$,
  'digests of secrets differ as a whole and are marked');

rollback;
