-- kilolock.read_state
begin;

create function pg_temp.read(p_ref text default null, p_name text default 'prod') returns text language sql
as $$ select r.version::text from kilolock.read_state(null, null, p_name, p_ref) r limit 1 $$;

select tap.throws_ok($$ select * from kilolock.read_state(null, null, 'prod') $$, 'KLN01', null, 'a state never written is not there');
select tap.throws_ok($$ select * from kilolock.read_state(null, null, 'prod', '1') $$, 'KLN01', null, 'nor is any version of it');
select tap.lock('prod', 'x');
select tap.throws_ok($$ select pg_temp.read() $$, 'KLN01', null, 'nor one that was only locked');
select tap.throws_ok($$ select pg_temp.read('1') $$, 'KLN03', 'state "prod" has no version 1', 'which has no versions');
select tap.post('prod', tap.state(1, '[' || tap.block('a') || ']'), 'x');
select tap.post('prod', tap.state(2), 'x');
select tap.is((select string_agg(r.chunk, '') from kilolock.read_state(null, null, 'prod') r), tap.state(2), 'the head comes back byte for byte');
select tap.is((select string_agg(r.chunk, '') from kilolock.read_state('ws_default', 'env_default', 'prod', '1') r),
  tap.state(1, '[' || tap.block('a') || ']'), 'so does an older version, by the long form too');
select tap.throws_ok($$ select * from kilolock.read_state('ws_none', 'env_none', 'prod') $$, 'KLN02', null, 'an unknown environment is refused');

-- References: versions 1 to 5 have the serials 1, 2, 2, 7 and 3, and were written an hour apart
select tap.post('prod', tap.state(2, '[' || tap.block('b') || ']'), 'x');
select tap.post('prod', tap.state(7), 'x');
select tap.post('prod', tap.state(3, '[' || tap.block('c') || ']'), 'x');
update kilolock.version_documents d set created_at = timestamptz '2026-03-01 00:00+00' + d.version * interval '1 hour';
update kilolock.events e set created_at = timestamptz '2026-03-01 00:00+00';
insert into kilolock.tags (state_id, name, version, actor) select s.id, 'good one', 2, 'ann' from kilolock.states s;
set local timezone = 'Asia/Tokyo';

select tap.is(pg_temp.read('current'), '5', 'current is the head');
select tap.is(pg_temp.read('4'), '4', 'a number is a version');
select tap.is(pg_temp.read('serial:2'), '3', 'of the versions with a serial the newest is meant');
select tap.is(pg_temp.read('serial:7'), '4', 'whatever serials came later');
select tap.is(pg_temp.read('@0'), '5', 'none back is the head');
select tap.is(pg_temp.read('@2'), '3', '@N is N back from the head');
select tap.is(pg_temp.read('good one'), '2', 'a tag is the version it points to');
select tap.is(pg_temp.read('2026-03-01T03:59:59Z'), '3', 'a time is the head of that moment');
select tap.is(pg_temp.read('2026-03-01T04:00+00'), '4', 'from the moment on at which it was written');
select tap.is(pg_temp.read('2026-03-01 13:30'), '4', 'a time without a zone is one of the session''s zone');
select tap.is(pg_temp.read('2100-01-01'), '5', 'the future is the head');

select tap.throws_ok($$ select pg_temp.read('6') $$, 'KLN03', 'state "prod" has no version 6', 'a version that never was is not there');
select tap.throws_ok($$ select pg_temp.read('99999999999999999999999') $$, 'KLN03', null, 'nor one that cannot be');
select tap.throws_ok($$ select pg_temp.read('serial:9') $$, 'KLN03', 'state "prod" has no version with serial 9', 'nor a serial that never was');
select tap.throws_ok($$ select pg_temp.read('@5') $$, 'KLN03', 'state "prod" has no version 5 back from its head', 'nor what lies before the first');
select tap.throws_ok($$ select pg_temp.read('2025-01-01') $$, 'KLN03', 'state "prod" has no version as early as 2025-01-01 00:00:00+09', 'in time too');
select tap.throws_ok($$ select pg_temp.read('bad one') $$, 'KLN03', 'state "prod" has no version or tag "bad one"', 'an unknown tag is refused');
select tap.throws_ok($$ select pg_temp.read('2026-13-41') $$, 'KLN03', null, 'so is a time that cannot be');
select tap.throws_ok($$ select pg_temp.read('2026-03-01T00:00+99') $$, 'KLN03', null, 'or has no such zone');
select tap.throws_ok($$ select pg_temp.read('') $$, 'KLN03', null, 'or nothing at all');

-- A deleted state
select kilolock.delete_state(null, null, 'prod', 'x', null);
update kilolock.events e set created_at = timestamptz '2026-03-02 00:00+00' where e.kind = 'state_delete';
select tap.throws_ok($$ select pg_temp.read('current') $$, 'KLN01', null, 'a deleted state has no head');
select tap.throws_ok($$ select pg_temp.read('@0') $$, 'KLN01', null, 'by no name');
select tap.is(pg_temp.read('@1'), '5', 'one back from its deletion is its last version');
select tap.is(pg_temp.read('@5'), '1', 'and five back its first');
select tap.is(pg_temp.read('3'), '3', 'its versions are still there');
select tap.is(pg_temp.read('2026-03-01T23:59Z'), '5', 'at a time before the deletion too');
select tap.throws_ok($$ select pg_temp.read('2026-03-02T00:00Z') $$, 'KLN03', 'state "prod" was deleted at 2026-03-02 09:00:00+09', 'but not from then on');
select tap.post('prod', tap.state(9), 'x');
select tap.is(pg_temp.read('@1'), '5', 'written again, the deletion counts no more');
update kilolock.version_documents d set created_at = timestamptz '2026-03-03 00:00+00' where d.version = 6;
select tap.is(pg_temp.read('2026-03-03T00:00Z'), '6', 'and the state is there at times after that');

-- Pruned versions
update kilolock.version_documents d set pruned_at = '2026-03-04 00:00+00' where d.version in (3, 5);
select tap.throws_ok($$ select pg_temp.read('5') $$, 'KLN03', 'version 5 of state "prod" was pruned at 2026-03-04 09:00:00+09', 'what was pruned is not there');
select tap.is(pg_temp.read('@1'), '4', 'and not counted');
select tap.is(pg_temp.read('serial:2'), '2', 'a serial means what was kept');
select tap.throws_ok($$ select pg_temp.read('2026-03-01T03:30Z') $$, 'KLN03', 'version 3 of state "prod" was pruned at 2026-03-04 09:00:00+09', 'a time means what was the head then');

rollback;
