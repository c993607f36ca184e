-- kilolock.delete_state
begin;

select tap.post('prod', tap.state(1, '[' || tap.block('a') || ']'));
select tap.lock('prod', 'x');
select tap.throws_ok($$ select kilolock.delete_state(null, null, 'prod', null, null) $$, 'KLL01', null, 'a locked state is not deleted without its ID');
select tap.throws_ok($$ select kilolock.delete_state(null, null, 'prod', 'y', null) $$, 'KLC01', null, 'nor with another');
select kilolock.delete_state(null, null, 'prod', 'x', null);
select tap.is_empty($$ select 1 from kilolock.resources $$, 'the live rows go');
select tap.isnt_empty($$ select 1 from kilolock.read_state(null, null, 'prod', '1') $$, 'the versions stay');
select tap.throws_ok($$ select kilolock.delete_state(null, null, 'prod', 'x', null) $$, 'KLN01', null, 'a deleted state is not there');
select tap.throws_ok($$ select kilolock.delete_state(null, null, 'never', null, null) $$, 'KLN01', null, 'nor is one that never was');
select tap.is((tap.post('prod', tap.state(1, '[' || tap.block('a') || ']'), 'x') ->> 'version'), '2', 'the next write is the next version');
select tap.is((select count(distinct h.resource_id) from kilolock.resource_history h), 1::bigint, 'an address that comes back keeps its id');

select tap.post('res', tap.state(1));
select tap.run('ann', 'res');
select tap.acquire('ann', '{}', '{a}');
select tap.throws_ok($$ select kilolock.delete_state(null, null, 'res', null, null) $$, 'KLL11', null, 'a state of which something is reserved is not deleted');
select tap.act('finish_apply_run', '{"run": "ann", "status": "failed"}');
select tap.lives_ok($$ select kilolock.delete_state(null, null, 'res', null, null) $$, 'until the run is over');

rollback;
