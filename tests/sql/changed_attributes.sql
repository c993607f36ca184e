-- kilolock.changed_attributes
begin;

select tap.results_eq(
  $$ select c.attribute, c.old_value, c.new_value, c.sensitive
     from kilolock.changed_attributes('{"a": 1, "same": [1], "tags": {"x.y": "1", "z": "2"}}', '{"a": 2, "same": [1], "tags": {"x.y": "2", "z": "2"}}') c $$,
  $$ values ('a', '1'::jsonb, '2'::jsonb, false), ('tags["x.y"]', '"1"', '"2"', false) $$, 'leaves that differ, by path');
select tap.results_eq(
  $$ select c.attribute, c.old_value, c.new_value
     from kilolock.changed_attributes('{"l": [{"s": 1}, 2], "n": null, "t": {"a": 1}}', '{"l": [{"s": 3}], "m": 4, "t": [1]}') c $$,
  $$ values ('l[0].s', '1'::jsonb, '3'::jsonb), ('l[1]', '2', null), ('m', null, '4'), ('t', '{"a": 1}', '[1]') $$,
  'elements by number; what is not there is null; another type is one change');
select tap.results_eq(
  $$ select c.attribute, c.old_value, c.new_value, c.sensitive
     from kilolock.changed_attributes('{"p": {"sensitive": "sha256:00"}, "q": "clear", "r": {"sensitive": "sha256:11"}}',
       '{"p": {"sensitive": "sha256:01"}, "q": {"sensitive": "sha256:02"}, "r": {"sensitive": "sha256:11"}}') c $$,
  $$ values ('p', null::jsonb, null::jsonb, true), ('q', null, null, true) $$, 'of a sensitive attribute only that it changed');
select tap.results_eq(
  $$ select c.attribute, c.sensitive from kilolock.changed_attributes('{"sensitive": "sha256:00"}', '{"sensitive": "sha256:01"}') c $$,
  $$ values ('', true) $$, 'where all attributes are one secret too');
select tap.results_eq(
  $$ select c.attribute, c.old_value, c.new_value
     from kilolock.changed_attributes('{"a": 1}', '{"a": 1}', 'x.old', 'x.new', 'ready', 'tainted') c $$,
  $$ values ('(address)', '"x.old"'::jsonb, '"x.new"'::jsonb), ('(status)', '"ready"', '"tainted"') $$, 'address and status too');
select tap.is_empty(
  $$ select c.attribute from kilolock.changed_attributes('{"a": {"b": [1]}}', '{"a": {"b": [1.0]}}', 'x', 'x', 'ready', 'ready') c $$,
  'equal readings have no changes');
select tap.is_empty($$ select c.attribute from kilolock.changed_attributes(null, null) c $$, 'nor has nothing at all');

set local role kilolock_reader;
select tap.results_eq($$ select c.attribute from kilolock.changed_attributes('{"a": 1}', '{"a": 2}') c $$, $$ values ('a') $$, 'a reader may ask');

rollback;
