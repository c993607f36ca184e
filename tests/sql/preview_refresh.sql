-- kilolock.preview_refresh
begin;

create function pg_temp.preview(p_version bigint, variadic p_blocks text[])
  returns json
  language sql
as $$
  select kilolock.preview_refresh(jsonb_build_object('state', 'prod', 'version', p_version, 'document',
    convert_from(tap.state(5, '[' || concat_ws(',', variadic p_blocks) || ']'), 'UTF8')), null)
$$;
create view pg_temp.kept as
select s.head_version, s.serial, (select count(*) from kilolock.resources) as rows, (select count(*) from kilolock.past_resources) as past,
       (select count(*) from kilolock.version_documents) as versions, (select count(*) from kilolock.refresh_runs) as runs,
       (select count(*) from kilolock.events) as events, (select count(*) from kilolock.document_chunks) as chunks
from kilolock.states s;

select tap.post('prod', tap.state(4, '[' || concat_ws(',', tap.block('a', '"n":1, "p": "old"}, "sensitive_attributes": [[{"type": "get_attr", "value": "p"}]], "x": {"y":1'), tap.block('b')) || ']'));
create temp table before on commit drop as select * from pg_temp.kept;
select tap.lock('prod', 'apply-1');
select tap.results_eq(
  $$ select c.value::text from json_array_elements((pg_temp.preview(1, tap.block('a', '"n":1.50, "p": "new"}, "sensitive_attributes": [[{"type": "get_attr", "value": "p"}]], "x": {"y":1'), tap.block('c')) ->> 'changes')::json) c $$,
  $$ values ('["update", "test.a", null, "n", 1, 1.50, false]'), ('["update", "test.a", null, "p", null, null, true]'),
            ('["delete", "test.b", null, null, null, null, false]'), ('["create", "test.c", null, null, null, null, false]') $$,
  'each attribute that differs, each resource that came or went, and no secret');
select tap.is(pg_temp.preview(1, tap.block('a', '"n":2')) ->> 'drifted', '2', 'it counts resources');
select tap.is(pg_temp.preview(1, tap.block('a', '"n":1, "p": "old"}, "sensitive_attributes": [[{"type": "get_attr", "value": "p"}]], "x": {"y":1'), tap.block('b')) ->> 'drifted', '0', 'none where nothing drifted');
select kilolock.release_lock(null, null, 'prod', 'apply-1', null, null);
delete from kilolock.events e where e.kind like 'lock%';
select tap.results_eq('select * from pg_temp.kept', 'select * from before', 'nothing of it is kept');

select tap.throws_ok($$ select pg_temp.preview(2, tap.block('a')) $$, 'KLC08', null, 'a head that has moved is told');
select tap.throws_ok($$ select kilolock.preview_refresh('{"state": "prod", "version": 1, "document": "no"}', null) $$, 'KLB01', null, 'what is no state is refused');
select tap.throws_ok($$ select kilolock.preview_refresh('{"state": "prod", "document": "{}"}', null) $$, 'KLB06', null, 'and a request without a version');
select tap.throws_ok($$ select kilolock.preview_refresh('{"state": "prod", "version": 1}', null) $$, 'KLB06', null, 'or without a document');
select tap.throws_ok($$ select kilolock.preview_refresh('{"version": 1, "document": "{}"}', null) $$, 'KLB05', null, 'or without a state');
update kilolock.version_documents d set encrypted = true;
select tap.throws_ok($$ select pg_temp.preview(1, tap.block('a')) $$, 'KLC07', null, 'of what is encrypted nobody can tell');
select kilolock.delete_state(null, null, 'prod', null, null);
select tap.throws_ok($$ select pg_temp.preview(1, tap.block('a')) $$, 'KLN01', null, 'or of a deleted state');

rollback;
