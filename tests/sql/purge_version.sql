-- kilolock.purge_version
begin;

create function pg_temp.purge(p_ref text) returns json language sql
as $$ select kilolock.purge_version(jsonb_build_object('state', 'prod', 'version', p_ref), 'ann') $$;

select tap.post('prod', tap.state(1, '[' || tap.block('a', '"n":1') || ',' || tap.block('b') || ']'));
select tap.post('prod', tap.state(2, '[' || tap.block('a', '"n":"hunter2"') || ',' || tap.block('b') || ']', '{"o":{"value":"hunter2","type":"string"}}'));
select tap.post('prod', tap.state(3, '[' || tap.block('a', '"n":3') || ',' || tap.block('b') || ']'));
select kilolock.set_tag('{"state": "prod", "tag": "bad", "version": "2"}', 'ann');
select tap.throws_ok($$ select pg_temp.purge('2') $$, 'KLC06', 'version 2 of state "prod" is tagged "bad"', 'a tagged version is not purged');
select tap.throws_ok($$ select pg_temp.purge('current') $$, 'KLC06', 'version 3 is the head of state "prod"', 'nor is the head');
select tap.throws_ok($$ select pg_temp.purge('@0') $$, 'KLC06', null, 'by no name');
select kilolock.unset_tag('{"state": "prod", "tag": "bad"}', 'ann');
select tap.is(pg_temp.purge('serial:2') ->> 'version', '2', 'any other is');
select tap.is_empty(
  $$ select 1 from kilolock.document_chunks c where c.data like '%hunter2%'
     union all select 1 from kilolock.past_resources p where p.attributes::text like '%hunter2%'
     union all select 1 from kilolock.past_outputs p where p.value::text like '%hunter2%'
     union all select 1 from kilolock.events e where e.payload::text like '%hunter2%' $$,
  'and nothing of it is left');
select tap.throws_ok($$ select * from kilolock.read_state(null, null, 'prod', '2') $$, 'KLN03', null, 'it cannot be read');
select tap.throws_ok($$ select pg_temp.purge('2') $$, 'KLN03', null, 'nor purged again');
select tap.is((select convert_from(string_agg(r.chunk, ''), 'UTF8') from kilolock.read_state(null, null, 'prod', '1') r),
  convert_from(tap.state(1, '[' || tap.block('a', '"n":1') || ',' || tap.block('b') || ']'), 'UTF8'), 'the others stay');
select tap.results_eq(
  $$ select r.address, r.attributes ->> 'n' from kilolock.resources_at('prod', 1) r order by 1 $$,
  $$ values ('test.a', '1'), ('test.b', null) $$, 'with their rows');
select tap.results_eq(
  $$ select e.actor, e.payload ->> 'version' from kilolock.events e where e.kind = 'version_purge' $$, $$ values ('ann', '2') $$, 'an event says who did it');

-- What is shared stays
select tap.post('prod', tap.state(4, '[' || tap.block('a', '"n":4') || ',' || tap.block('b') || ']'));
select tap.post('prod', tap.state(5, '[' || tap.block('a', '"n":4') || ',' || tap.block('b') || ']'));
select tap.ok((pg_temp.purge('3') ->> 'shared_bytes')::bigint >= 0, 'it tells how much stays');
select tap.is((select count(*) from kilolock.resources_at('prod', 4) r), 2::bigint, 'rows that other versions show stay');

select kilolock.delete_state(null, null, 'prod', null, null);
select tap.is(pg_temp.purge('@1') ->> 'version', '5', 'the last version of a deleted state can be purged');
select tap.throws_ok($$ select kilolock.purge_version('{"state": "prod"}', 'ann') $$, 'KLB06', null, 'which one has to be said');
select tap.throws_ok($$ select kilolock.purge_version('{"state": "prod", "version": [2]}', 'ann') $$, 'KLB06', null, 'in text');
select tap.throws_ok($$ select kilolock.purge_version('{"state": "none", "version": "2"}', 'ann') $$, 'KLN01', null, 'an unknown state is refused');
select tap.throws_ok($$ select kilolock.purge_version('{"version": "2"}', 'ann') $$, 'KLB05', null, 'no state too');

rollback;
