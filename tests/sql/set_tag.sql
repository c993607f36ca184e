-- kilolock.set_tag
begin;

create function pg_temp.tag(p_tag text, p_more jsonb default '{}') returns json language sql
as $$ select kilolock.set_tag(jsonb_build_object('state', 'prod', 'tag', p_tag, 'who', 'ann@host') || p_more, null) $$;

select tap.throws_ok($$ select pg_temp.tag('a') $$, 'KLN01', null, 'a state that never was has no tags');
select tap.post('prod', tap.state(7));
select tap.post('prod', tap.state(8));
select tap.is(pg_temp.tag('good') ->> 'version', '2', 'a tag points to the head');
select tap.is(pg_temp.tag('first', '{"version": "@1"}') ->> 'version', '1', 'or to where it is told');
select tap.is(pg_temp.tag('fifth', '{"version": "first"}') ->> 'serial', '7', 'by another tag too');
select tap.is(pg_temp.tag('number', '{"version": 1}') ->> 'version', '1', 'or a plain number');
select tap.is(pg_temp.tag('good') ->> 'changed', 'false', 'once there it stays');
select tap.throws_ok($$ select pg_temp.tag('good', '{"version": "1"}') $$, 'KLC05', 'tag "good" of state "prod" points to version 2, not 1',
  'it is not moved by mistake');
select tap.is(pg_temp.tag('good', '{"version": "1", "force": true}') ->> 'moved_from', '2', 'but on purpose');
select tap.results_eq(
  $$ select t.name, t.version, t.actor from kilolock.tags t order by 1 $$,
  $$ values ('fifth', 1::bigint, 'ann@host'), ('first', 1, 'ann@host'), ('good', 1, 'ann@host'), ('number', 1, 'ann@host') $$, 'all are kept');
select tap.results_eq(
  $$ select e.payload ->> 'tag', e.payload ->> 'version', e.payload ->> 'moved_from' from kilolock.events e where e.kind = 'tag_set' order by e.id $$,
  $$ values ('good', '2', null), ('first', '1', null), ('fifth', '1', null), ('number', '1', null), ('good', '1', '2') $$, 'one event for each change');

select tap.throws_ok($$ select pg_temp.tag('x', '{"version": "9"}') $$, 'KLN03', null, 'a version that never was is refused');
select tap.throws_ok($$ select pg_temp.tag('x', '{"version": ["1"]}') $$, 'KLB06', null, 'a version that is no text is refused');
select tap.throws_ok($$ select pg_temp.tag('x', '{"force": "yes"}') $$, 'KLB06', null, 'a force that is neither true nor false is refused');
select tap.throws_ok($$ select pg_temp.tag(null) $$, 'KLB06', null, 'no name is refused');
select tap.throws_ok($$ select kilolock.set_tag('{"state": "prod", "tag": {"a": 1}}', null) $$, 'KLB06', null, 'a name that is no text is refused');
select tap.throws_ok($$ select kilolock.set_tag('{"tag": "a"}', null) $$, 'KLB05', null, 'no state is refused');
select tap.throws_ok($$ select kilolock.set_tag('[]', null) $$, 'KLB06', null, 'no object is refused');
select tap.throws_ok(format('select pg_temp.tag(%L)', n.name), 'KLB07', null, format('the name %s is refused', to_json(left(n.name, 40))))
from (values (''), (' x'), (e'a\nb'), (repeat('x', 256)), ('12'), ('@1'), ('@x'), ('-x'), ('serial:4'), ('current'), ('Current'),
  ('2026-11-30'), ('2026-11-30T10:00'), ('now'), ('yesterday'), ('epoch'), ('infinity'), ('20261130T100000')) n(name);
select tap.lives_ok(format('select pg_temp.tag(%L)', n.name), format('the name %s is taken', to_json(n.name)))
from (values ('v1.2'), ('before upgrade'), ('release-2026-11-30'), ('Ünïcode/"quoted"'), ('1.0'), ('serial'), ('a@1')) n(name);
select tap.is((select count(*) from kilolock.tags t where (kilolock._find_version(null, null, 'prod', t.name)).version <> t.version),
  0::bigint, 'every tag is found by its name');

rollback;
