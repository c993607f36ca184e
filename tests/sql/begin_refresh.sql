-- kilolock.begin_refresh
begin;

select tap.throws_ok($$ select kilolock.begin_refresh('{"state": "prod", "lock_id": "r1"}', null) $$, 'KLN01', null,
  'a state that was never written is not refreshed');
select tap.is_empty($$ select s.name from kilolock.states s $$, 'and not made');
select tap.post('prod', tap.state(4, '[' || tap.block('a') || ']'));
select tap.throws_ok(format('select kilolock.begin_refresh(%L, null)', r.request), 'KLB06', null, r.label)
from (values ('{"state": "prod"}', 'a refresh without a lock ID is refused'),
             ('{"state": "prod", "lock_id": 7}', 'one that is a number too'),
             ('{"state": "prod", "lock_id": ""}', 'an empty one too')) r(request, label);
select tap.throws_ok($$ select kilolock.begin_refresh('{"lock_id": "r1"}', null) $$, 'KLB05', null, 'a request that names no state is refused');
select tap.is((select count(*) from kilolock.state_locks), 0::bigint, 'a refused one leaves no lock');

select tap.is(kilolock.begin_refresh('{"state": "prod", "lock_id": "r1", "who": "bob@host"}', null) ->> 'version', '1',
  'it answers the version to refresh');
select tap.results_eq($$ select l.lock_id, l.operation, l.who, l.path, l.created is not null from kilolock.state_locks l $$,
  $$ values ('r1', 'refresh', 'bob@host', 'prod', true) $$, 'it holds the Terraform lock');
select tap.results_eq($$ select u.who, u.status, u.base_version, u.version from kilolock.refresh_runs u $$,
  $$ values ('bob@host', 'running', 1::bigint, null::bigint) $$, 'and has a run');
select tap.lives_ok($$ select kilolock.begin_refresh('{"state": "prod", "lock_id": "r1"}', null) $$, 'the same again is a retry');
select tap.is((select count(*) from kilolock.refresh_runs), 1::bigint, 'of the same run');
select tap.throws_ok($$ select kilolock.begin_refresh('{"state": "prod", "lock_id": "r2"}', null) $$, 'KLL01', null, 'another waits for its turn');

select kilolock.release_lock(null, null, 'prod', null, null, 'carol');
select tap.lives_ok($$ select kilolock.begin_refresh('{"state": "prod", "lock_id": "r3"}', 'ann') $$, 'a lock opened by force is free');
select tap.results_eq($$ select u.lock_id, u.status, u.who from kilolock.refresh_runs u order by u.id $$,
  $$ values ('r1', 'failed', 'bob@host'), ('r3', 'running', 'ann') $$, 'and its run is known to have failed');

select tap.post('secret', convert_to('{"serial": 1, "lineage": "l", "meta": {}, "encrypted_data": "eA==", "encryption_version": "v0"}', 'UTF8'));
select tap.throws_ok($$ select kilolock.begin_refresh('{"state": "secret", "lock_id": "r1"}', null) $$, 'KLC07', null,
  'what is encrypted cannot be compared');
select kilolock.release_lock(null, null, 'prod', 'r3', null, null);
update kilolock.version_documents d set raw_size = 200000001 from kilolock.states s where s.name = 'prod' and d.state_id = s.id;
select tap.throws_ok($$ select kilolock.begin_refresh('{"state": "prod", "lock_id": "r4"}', null) $$, 'KLC07', null,
  'nor can what is too large to come back');
select tap.is((select count(*) from kilolock.state_locks), 0::bigint, 'neither is left locked');

rollback;
