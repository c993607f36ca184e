-- kilolock.prune_versions
begin;

create function pg_temp.prune(p_more jsonb) returns json language sql
as $$ select kilolock.prune_versions('{"state": "prod", "who": "ann@host"}'::jsonb || p_more, null) $$;
create function pg_temp.kept() returns text language sql
as $$ select string_agg(v.version::text, ' ' order by v.version) from kilolock.state_versions v join kilolock.states s on s.id = v.state_id where s.name = 'prod' $$;
create function pg_temp.listed(p_answer json) returns text language sql
as $$ select string_agg(v.value ->> 'version', ' ') from json_array_elements(p_answer -> 'versions') v $$;
create function pg_temp.body(p_version bigint) returns text language sql
as $$ select convert_from(string_agg(r.chunk, ''), 'UTF8') from kilolock.read_state(null, null, 'prod', p_version::text) r $$;
create function pg_temp.post(p_serial bigint, p_resources text, p_outputs text default '{}') returns text language sql
as $$ select kilolock.write_state(null, null, 'prod', null, tap.state(p_serial, '[' || p_resources || ']', p_outputs), null, 'u' || p_serial) $$;

-- a is another in each version, b was made in 2 and went in 4, c is in 3 only, and so is an output
select pg_temp.post(1, tap.block('a', '"n":1'));
select pg_temp.post(2, tap.block('a', '"n":2') || ',' || tap.block('b'));
select pg_temp.post(3, tap.block('a', '"n":3') || ',' || tap.block('b') || ',' || tap.block('c'), '{"o":{"value":3,"type":"number"}}');
select pg_temp.post(4, tap.block('a', '"n":4'));
select pg_temp.post(5, tap.block('a', '"n":5'));
update kilolock.version_documents d set created_at = now() - (6 - d.version) * interval '1 day';

select tap.is(pg_temp.listed(pg_temp.prune('{"keep": 2}')), '1 2 3', 'it tells what would go');
select tap.is(pg_temp.prune('{"keep": 2}') ->> 'applied', 'false', 'and says that nothing did');
select tap.is(pg_temp.kept(), '1 2 3 4 5', 'nothing goes without apply');
select tap.is_empty($$ select 1 from kilolock.events e where e.kind = 'version_prune' $$, 'nor is there an event');
select tap.is(pg_temp.listed(pg_temp.prune('{"keep_days": 2.5}')), '1 2', 'what was the head within those days stays');
select tap.is(pg_temp.listed(pg_temp.prune('{"keep_days": "0"}')), '1 2 3 4', 'the head always does');
select tap.is(pg_temp.listed(pg_temp.prune('{"keep": 99}')), null, 'there may be nothing to do');
select tap.ok((pg_temp.prune('{"keep": 2}') ->> 'bytes')::bigint > 0, 'it tells how many bytes are freed');

select kilolock.set_tag('{"state": "prod", "tag": "good", "version": "2"}', 'ann');
create temp table before as select v.n, pg_temp.body(v.n) as body, (select jsonb_agg(r.* order by r.address) from kilolock.resources_at('prod', v.n) r) as resources from unnest(array[2, 5]) v(n);
create temp table told as select (pg_temp.prune('{"keep": 1}') ->> 'bytes')::bigint as bytes;
select tap.results_eq(
  $$ select x.a ->> 'applied', pg_temp.listed(x.a), x.a ->> 'kept', (x.a ->> 'bytes')::bigint = (select t.bytes from told t)
     from pg_temp.prune('{"keep": 1, "apply": true}') x(a) $$,
  $$ values ('true', '1 3 4', '2', true) $$, 'with apply it goes, but for what is tagged');
select tap.is(pg_temp.kept(), '2 5', 'and is not listed any more');
select tap.throws_ok($$ select pg_temp.body(3) $$, 'KLN03', null, 'nor read');
select tap.throws_ok($$ select * from kilolock.resources_at('prod', 3) $$, 'KLN03', null, 'nor asked for');
select tap.is_empty(
  $$ select 1 from before b where b.body <> pg_temp.body(b.n)
       or b.resources <> (select jsonb_agg(r.* order by r.address) from kilolock.resources_at('prod', b.n) r) $$,
  'what was kept is what it was');
select tap.is(
  (select count(*) from kilolock.document_chunks c where not exists (select from kilolock.version_documents d where c.id = any (d.chunk_ids))),
  0::bigint, 'no chunk is left that nothing uses');
select tap.results_eq(
  $$ select p.address, p.from_version, p.until_version from kilolock.past_resources p order by 1 $$,
  $$ values ('test.a', 2::bigint, 3::bigint), ('test.b', 2, 4) $$, 'nor a row that nothing shows');
select tap.is_empty($$ select 1 from kilolock.past_outputs $$, 'nor an output');
select tap.results_eq(
  $$ select h.from_version, h.actor from kilolock.resource_history h where h.address = 'test.a' order by 1 $$,
  $$ values (2::bigint, 'u2'), (5, 'u5') $$, 'who made what is still known');
select tap.results_eq(
  $$ select e.actor, e.payload -> 'versions', e.payload -> 'keep' from kilolock.events e where e.kind = 'version_prune' $$,
  $$ values ('ann@host', '[[1, 1], [3, 4]]'::jsonb, '1'::jsonb) $$, 'an event says what went');
select tap.is(pg_temp.prune('{"keep": 1, "apply": true}') ->> 'bytes', '0', 'again there is nothing to do');
select tap.is((select count(*) from kilolock.events e where e.kind = 'version_prune'), 1::bigint, 'and no event of it');

-- Writing goes on, and so does blame of what was made in a version that went
select pg_temp.post(6, tap.block('a', '"n":6') || ',' || tap.block('b'));
select tap.is(pg_temp.listed(pg_temp.prune('{"keep": 1, "apply": true}')), '5', 'the old head may go');
select pg_temp.post(7, tap.block('a', '"n":7') || ',' || tap.block('b'));
select pg_temp.prune('{"keep": 1, "apply": true}');
select tap.results_eq(
  $$ select b.attribute, b.version, b.actor from kilolock.blame('prod', 'test.b') b $$, $$ values ('id', 6::bigint, 'u6') $$,
  'who changed a value in a version that went is still known');

-- Drift that a refresh found is still told
select kilolock.write_state(null, null, 'prod', null, tap.state(8, '[' || tap.block('a', '"n":8') || ']'), null, 'u8', 'refresh');
create temp table drift as select d.* from kilolock.current_drift d;
select tap.is((select count(*) from drift), 2::bigint, 'a refresh found two resources drifted');
select pg_temp.prune('{"keep": 1, "apply": true}');
select tap.results_eq($$ select d::text from kilolock.current_drift d order by 1 $$, $$ select d::text from drift d order by 1 $$, 'pruning does not forget it');

-- A deleted state
select kilolock.delete_state(null, null, 'prod', null, null);
select tap.is(pg_temp.listed(pg_temp.prune('{"keep": 1}')), null, 'the last version of a deleted state is kept as one of the newest');
update kilolock.events e set created_at = now() - interval '3 days' where e.kind = 'state_delete';
select tap.is(pg_temp.listed(pg_temp.prune('{"keep_days": 4}')), null, 'or for the days that it was the head');
select kilolock.unset_tag('{"state": "prod", "tag": "good"}', 'ann');
select tap.is(pg_temp.listed(pg_temp.prune('{"keep_days": 2, "apply": true}')), '2 8', 'then it goes');
select tap.is((select count(*) from kilolock.document_chunks) + (select count(*) from kilolock.past_outputs), 0::bigint, 'with all its chunks');
select tap.is((select count(*) from kilolock.past_resources p where p.until_version <> 8), 0::bigint, 'and rows');
select tap.lives_ok($$ select pg_temp.post(9, tap.block('a', '"n":9')) $$, 'and may be written again');

select tap.throws_ok($$ select pg_temp.prune('{}') $$, 'KLB06', null, 'how much to keep has to be said');
select tap.throws_ok($$ select pg_temp.prune('{"keep": 1, "keep_days": 1}') $$, 'KLB06', null, 'in one way');
select tap.throws_ok(format('select pg_temp.prune(%L)', x.more), 'KLB06', null, format('%s is refused', x.more))
from (values ('{"keep": 0}'), ('{"keep": -1}'), ('{"keep": 1.5}'), ('{"keep": "all"}'), ('{"keep": [1]}'), ('{"keep": 99999999999}'),
  ('{"keep_days": -1}'), ('{"keep_days": "x"}'), ('{"keep_days": 1e99}'), ('{"keep_days": "."}'), ('{"keep": 1, "apply": 1}')) x(more);
select tap.throws_ok($$ select pg_temp.prune('{"keep": 1, "state": "none"}') $$, 'KLN01', null, 'an unknown state is refused');
select tap.throws_ok($$ select kilolock.prune_versions('{"keep": 1}', null) $$, 'KLB05', null, 'no state too');

rollback;
