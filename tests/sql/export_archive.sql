-- kilolock.export_archive
begin;

create function pg_temp.records(p_name text default 'prod') returns table (n bigint, kind text, item jsonb, data bytea) language sql as $$
  select r.n - 1, k.kind, case when k.kind <> 'C' then convert_from(substr(r.row, 2), 'UTF8')::jsonb end, substr(r.row, 2)
  from (select row_number() over () as n, x.row from (select kilolock.export_archive(null, null, p_name) as row) x) r
  cross join lateral (select convert_from(substr(r.row, 1, 1), 'UTF8') as kind) k
$$;

select tap.throws_ok($$ select kilolock.export_archive(null, null, 'prod') $$, 'KLN01', null, 'a state that never was has no archive');
select tap.lock('prod', 'x');
-- Where chunks end depends on the salt; with this one a document of two instances is one chunk.
update kilolock.state_salts set salt = 'fixed';
select tap.throws_ok($$ select kilolock.export_archive(null, null, 'prod') $$, 'KLN01', null, 'nor has one that was never written');
select tap.throws_ok($$ select kilolock.export_archive('ws_none', 'e', 'prod') $$, 'KLN02', null, 'an unknown environment is refused');

select tap.post('prod', tap.state(1, '[' || tap.block('a') || ']'), 'x');
select tap.post('prod', tap.state(2, '[' || tap.block('a') || ',' || tap.block('b') || ']'), 'x');
select kilolock.delete_state(null, null, 'prod', 'x', 'ann');
select tap.post('prod', tap.state(1, '[' || tap.block('a') || ']'), 'x');
insert into kilolock.tags (state_id, name, version, actor) select s.id, 'good', 2, 'ann' from kilolock.states s;
insert into kilolock.refresh_runs (state_id, who, status, base_version, finished_at)
select s.id, 'ann', r.status, 3, case when r.status <> 'running' then now() end
from kilolock.states s cross join (values ('clean'), ('running')) r(status);

select tap.is((select string_agg(r.kind, '' order by r.n) from pg_temp.records() r), 'HCVCVDVTRE',
  'a chunk comes before the first version that needs it, a delete after the version it deleted, then tags, refreshes and events');
select tap.is((select r.item ->> 'state' from pg_temp.records() r where r.kind = 'H'), 'prod', 'the header names the state');
select tap.results_eq(
  $$ select t.versions, t.chunks, t.deletes, t.tags, t.refreshes, t.events, t.head_version, t.deleted from pg_temp.records() r
     cross join lateral jsonb_to_record(r.item) t(versions int, chunks int, deletes int, tags int, refreshes int, events int, head_version int, deleted boolean)
     where r.kind = 'H' $$,
  $$ values (3, 2, 1, 1, 1, 5, 3, false) $$, 'and counts what follows');
select tap.is(
  (select string_agg(c.data, '' order by i.n, c.n)
   from pg_temp.records() v
   cross join lateral jsonb_array_elements(v.item -> 'chunks') with ordinality i(stretch, n)
   join pg_temp.records() c on c.n >= (i.stretch ->> 0)::int and c.n < (i.stretch ->> 0)::int + (i.stretch ->> 1)::int
   where v.kind = 'V' and v.item ->> 'version' = '3'),
  tap.state(1, '[' || tap.block('a') || ']'), 'the stretches of chunks joined are the document');
select tap.ok(
  (select (r.item ->> 'created_at')::timestamptz = d.created_at and r.item ->> 'actor' = d.actor
   from pg_temp.records() r join kilolock.version_documents d on d.version = (r.item ->> 'version')::int
   where r.kind = 'V' and d.version = 2), 'a version says who wrote it, and when to the microsecond');
select tap.is((select r.item ->> 'actor' from pg_temp.records() r where r.kind = 'D'), 'ann', 'so does a delete');

update kilolock.version_documents d set chunk_ids = '{}', pruned_at = now() where d.version = 1;
select tap.results_eq(
  $$ select r.item -> 'chunks', r.item ? 'md5', r.item ->> 'pruned_at' is not null from pg_temp.records() r where r.kind = 'V' and r.item ->> 'version' = '1' $$,
  $$ values ('null'::jsonb, true, true) $$, 'a pruned version is there without its document');

-- A document of several chunks, in which one that was there before stands between new ones
select tap.post('many', tap.state(1, (select '[' || string_agg(e'\n    {\n      "mode": "managed",\n      "type": "t",\n      "name": "n' || i
  || e'",\n      "provider": "p",\n      "instances": [\n        {\n          "schema_version": 0,\n          "attributes": {\n            "id": "' || i
  || e'"\n          }\n        }\n      ]\n    }', ',') || ']' from generate_series(1, 1000) i)));
select tap.post('many', convert_to(replace(replace(convert_from((select string_agg(r.chunk, '') from kilolock.read_state(null, null, 'many') r), 'UTF8'),
  '"id": "500"', '"id": "x"'), '"serial": 1,', '"serial": 2,'), 'UTF8'));
select tap.ok((select count(*) between 3 and 60 from pg_temp.records('many') r where r.kind = 'C'), 'chunks are shared between versions');
select tap.bag_eq(
  $$ select md5(string_agg(c.data, '' order by i.n, c.n))
     from pg_temp.records('many') v
     cross join lateral jsonb_array_elements(v.item -> 'chunks') with ordinality i(stretch, n)
     join pg_temp.records('many') c on c.n >= (i.stretch ->> 0)::int and c.n < (i.stretch ->> 0)::int + (i.stretch ->> 1)::int
     where v.kind = 'V' group by v.item ->> 'version' $$,
  $$ select d.raw_md5 from kilolock.version_documents d join kilolock.states s on s.id = d.state_id where s.name = 'many' $$,
  'and every version can be joined from them');

rollback;
