-- kilolock.import_archive
begin;

create function pg_temp.stage(p_from text, p_id uuid) returns void language sql as $$
  select kilolock.stage_archive_record(p_id, r.n - 1, convert_from(substr(r.row, 1, 1), 'UTF8'), substr(r.row, 2))
  from (select row_number() over () as n, x.row from (select kilolock.export_archive(null, null, p_from) as row) x) r
$$;
create function pg_temp.import(p_id uuid, p_name text default 'copy') returns jsonb language sql
as $$ select kilolock.import_archive(null, null, p_name, p_id, 'bob')::jsonb $$;
create function pg_temp.change(p_id uuid, p_kind text, p_from text, p_to text) returns void language sql as $$
  update kilolock.archive_records r set data = convert_to(regexp_replace(convert_from(r.data, 'UTF8'), p_from, p_to), 'UTF8')
  where r.archive_id = p_id and r.kind = p_kind
$$;
create temporary view past as
  select s.name, h.address, h.deposed_key, h.attributes, h.from_version, h.until_version, h.change, h.source, h.actor, h.status
  from kilolock.resource_history h join kilolock.states s on s.id = h.state_id;
create temporary view told as
  select s.name, d.version, d.serial, d.lineage, d.terraform_version, d.raw_size, d.raw_md5, d.resource_count, d.source, d.actor,
         d.created_at, d.created_count, d.updated_count, d.deleted_count, d.encrypted, d.pruned_at,
         (select string_agg(c.data, '' order by i.n) from unnest(d.chunk_ids) with ordinality i(id, n)
          join kilolock.document_chunks c on c.id = i.id) as document
  from kilolock.version_documents d join kilolock.states s on s.id = d.state_id;

select tap.lock('prod', 'x');
select tap.post('prod', tap.state(3, '[' || tap.block('a') || ',' || tap.block('b') || ']'), 'x');
select tap.post('prod', tap.state(4, '[' || tap.block('a', '"n":1') || ']', '{"o":{"value":1,"type":"number"}}'), 'x');
select kilolock.delete_state(null, null, 'prod', 'x', 'ann');
select tap.post('prod', tap.state(1, '[' || tap.block('b') || ']', '{}', 'other'), 'x');
select tap.post('prod', tap.state(2, '[' || replace(tap.block('b'), '"name":"b"', '"name":"c"') || ']', '{}', 'other'), 'x');
insert into kilolock.tags (state_id, name, version, actor, created_at) select s.id, 'good', 2, 'ann', now() - interval '1 day' from kilolock.states s;
insert into kilolock.refresh_runs (state_id, lock_id, who, status, base_version, version, drifted_count, message, finished_at)
select s.id, r.lock_id, 'ann', r.status, 1, r.version, 7, r.message, now()
from kilolock.states s cross join (values ('l', 'drifted', 2, null), (null, 'failed', null, 'no')) r(lock_id, status, version, message);
update kilolock.version_documents d set source = 'refresh', actor = 'carl' where d.version = 2;
update kilolock.states s set created_at = now() - interval '2 days';

select pg_temp.stage('prod', '00000000-0000-4000-8000-000000000001');
select tap.throws_ok($$ select pg_temp.import('00000000-0000-4000-8000-000000000001', 'prod') $$, 'KLC09', null, 'a state that is there is not overwritten');
select tap.lock('held', 'y');
select tap.throws_ok($$ select pg_temp.import('00000000-0000-4000-8000-000000000001', 'held') $$, 'KLL01', null, 'nor is a lock passed');
select tap.throws_ok($$ select pg_temp.import('00000000-0000-4000-8000-000000000001', '') $$, 'KLB03', null, 'a name that cannot be is refused');
select tap.is(pg_temp.import('00000000-0000-4000-8000-000000000001'),
  '{"state": "copy", "from": "prod", "version": 4, "versions": 4, "tags": 1, "events": 6}', 'an archive becomes a state');
select tap.is_empty($$ select 1 from kilolock.archive_records $$, 'and nothing of it stays behind');

select tap.results_eq(
  $$ select t.version, t.serial, t.lineage, t.terraform_version, t.raw_size, t.raw_md5, t.resource_count, t.source, t.actor, t.created_at,
       t.created_count, t.updated_count, t.deleted_count, t.encrypted, t.pruned_at, t.document from told t where t.name = 'copy' order by 1 $$,
  $$ select t.version, t.serial, t.lineage, t.terraform_version, t.raw_size, t.raw_md5, t.resource_count, t.source, t.actor, t.created_at,
       t.created_count, t.updated_count, t.deleted_count, t.encrypted, t.pruned_at, t.document from told t where t.name = 'prod' order by 1 $$,
  'its versions are the same in every column');
select tap.bag_eq(
  $$ select p.address, p.deposed_key, p.attributes, p.from_version, p.until_version, p.change, p.source, p.actor, p.status from past p where p.name = 'copy' $$,
  $$ select p.address, p.deposed_key, p.attributes, p.from_version, p.until_version, p.change, p.source, p.actor, p.status from past p where p.name = 'prod' $$,
  'so is its past');
select tap.results_eq(
  $$ select e.kind, e.actor, e.created_at, e.payload from kilolock.events e join kilolock.states s on s.id = e.state_id
     where s.name = 'copy' and e.kind <> 'archive_import' order by e.id $$,
  $$ select e.kind, e.actor, e.created_at, e.payload from kilolock.events e join kilolock.states s on s.id = e.state_id where s.name = 'prod' order by e.id $$,
  'so are the events');
select tap.results_eq(
  $$ select e.actor, e.payload ->> 'from', e.payload ->> 'versions' from kilolock.events e where e.kind = 'archive_import' $$,
  $$ values ('bob', 'prod', '4') $$, 'with one more that says who imported it');
select tap.results_eq(
  $$ select t.name, t.version, t.actor, t.created_at = now() - interval '1 day' from kilolock.tags t join kilolock.states s on s.id = t.state_id where s.name = 'copy' $$,
  $$ values ('good', 2::bigint, 'ann', true) $$, 'so are the tags');
select tap.results_eq(
  $$ select r.lock_id, r.who, r.status, r.base_version, r.version, r.drifted_count, r.message, r.started_at, r.finished_at
     from kilolock.refresh_runs r join kilolock.states s on s.id = r.state_id where s.name = 'copy' order by r.id $$,
  $$ select r.lock_id, r.who, r.status, r.base_version, r.version, r.drifted_count, r.message, r.started_at, r.finished_at
     from kilolock.refresh_runs r join kilolock.states s on s.id = r.state_id where s.name = 'prod' order by r.id $$,
  'so are the refreshes');
select tap.results_eq(
  $$ select s.serial, s.lineage, s.head_version, s.resource_count, s.managed_count, s.head_size, s.created_at, s.updated_at from kilolock.states s where s.name = 'copy' $$,
  $$ select s.serial, s.lineage, s.head_version, s.resource_count, s.managed_count, s.head_size, s.created_at, s.updated_at from kilolock.states s where s.name = 'prod' $$,
  'and the head');
select tap.is((tap.post('copy', tap.state(3, '[]', '{}', 'other')) ->> 'version'), '5', 'the next write goes on from there');

-- A deleted state, a purged and a pruned version
select kilolock.delete_state(null, null, 'prod', 'x', 'ann');
delete from kilolock.version_documents d using kilolock.states s where s.id = d.state_id and s.name = 'prod' and d.version = 4;
update kilolock.version_documents d set chunk_ids = '{}', pruned_at = now() from kilolock.states s where s.id = d.state_id and s.name = 'prod' and d.version = 1;
select pg_temp.stage('prod', '00000000-0000-4000-8000-000000000002');
select tap.is(pg_temp.import('00000000-0000-4000-8000-000000000002', 'gaps') ->> 'versions', '3', 'gaps stay gaps');
select tap.results_eq(
  $$ select t.version, t.pruned_at, t.actor, t.created_count from told t where t.name = 'gaps' order by 1 $$,
  $$ select t.version, t.pruned_at, t.actor, t.created_count from told t where t.name = 'prod' order by 1 $$,
  'and what is known of a pruned version comes along');
select tap.throws_ok($$ select * from kilolock.read_state(null, null, 'gaps') $$, 'KLN01', null, 'a deleted state is deleted');
select tap.is((tap.post('gaps', tap.state(1)) ->> 'version'), '5', 'no number is given twice, not even that of a purged head');

-- The same document twice, with one between them that is gone
select tap.post('twice', tap.state(1));
select tap.lock('twice', 'z');
select tap.post('twice', tap.state(2), 'z');
select tap.post('twice', tap.state(1), 'z');
select kilolock.release_lock(null, null, 'twice', 'z', '', null);
delete from kilolock.version_documents d using kilolock.states s where s.id = d.state_id and s.name = 'twice' and d.version = 2;
select pg_temp.stage('twice', '00000000-0000-4000-8000-000000000003');
select tap.is(pg_temp.import('00000000-0000-4000-8000-000000000003', 'twice2') ->> 'versions', '2', 'equal neighbours stay two versions');

-- Quotas
select tap.post('fat', tap.state(1, '[' || tap.block('a') || ',' || tap.block('b') || ',' || tap.block('c') || ']'));
select tap.post('fat', tap.state(2, '[' || tap.block('a') || ']'));
insert into kilolock.quotas (environment_id, resources_hard, set_by)
select s.environment_id, sum(s.managed_count) + 1, 'ann' from kilolock.states s group by s.environment_id;
select pg_temp.stage('fat', '00000000-0000-4000-8000-000000000006');
select tap.lives_ok($$ select pg_temp.import('00000000-0000-4000-8000-000000000006', 'slim') $$, 'a head within the quota is taken, whatever it once was');
select pg_temp.stage('fat', '00000000-0000-4000-8000-000000000007');
select tap.throws_ok($$ select pg_temp.import('00000000-0000-4000-8000-000000000007', 'more') $$, 'KLQ01', null, 'one over the quota is not');
delete from kilolock.quotas;

-- Archives with the right checksums that nobody can have exported
create function pg_temp.try(p_kind text, p_from text, p_to text) returns jsonb language plpgsql as $$
begin
  perform pg_temp.stage('twice', '00000000-0000-4000-8000-000000000004');
  perform pg_temp.change('00000000-0000-4000-8000-000000000004', p_kind, p_from, p_to);
  return pg_temp.import('00000000-0000-4000-8000-000000000004', 'never');
end;
$$;
select tap.throws_ok($$ select pg_temp.try('V', '"md5" : "..', '"md5" : "zz') $$, 'KLB09', null, 'another document than described');
select tap.throws_ok($$ select pg_temp.try('V', '"chunks" : .*', '"chunks" : [[1000,1]]}') $$, 'KLB09', null, 'chunks that are not there');
select tap.throws_ok($$ select pg_temp.try('V', '"chunks" : .*', '"chunks" : 7}') $$, 'KLB09', null, 'chunks that are no list');
select tap.throws_ok($$ select pg_temp.try('V', '"version" : 3', '"version" : 1') $$, 'KLB09', null, 'a version twice');
select tap.throws_ok($$ select pg_temp.try('V', '"source" : "apply"', '"source" : "magic"') $$, 'KLB09', null, 'an unknown source');
select tap.throws_ok($$ select pg_temp.try('V', '"actor" : "[^"]*"', '"actor" : null') $$, 'KLB09', null, 'a version without an actor');
select tap.throws_ok($$ select pg_temp.try('V', '.*', '[') $$, 'KLB09', null, 'a record that is no JSON');
select tap.throws_ok($$ select pg_temp.try('C', '"version": 4', '"version": 3') $$, 'KLB09', null, 'a document that is no state');
select tap.throws_ok($$ select pg_temp.try('E', 'state_write', 'state_wrote') $$, 'KLB09', null, 'an unknown kind of event');
select tap.throws_ok($$ select pg_temp.try('H', '"events" : [0-9]+', '"events" : 99') $$, 'KLB09', null, 'a header that counts wrong');
select tap.throws_ok($$ select pg_temp.try('H', '"managed" : [0-9]+', '"managed" : -1') $$, 'KLB09', null, 'a header that hides resources from quotas');
select tap.throws_ok($$ select pg_temp.import('00000000-0000-4000-8000-000000000005', 'never') $$, 'KLB09', null, 'no records at all');
select tap.is_empty($$ select 1 from kilolock.states s where s.name = 'never' $$, 'none of them leaves a state');

rollback;
