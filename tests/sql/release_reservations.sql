-- kilolock.release_reservations
begin;

select tap.run('ann'), tap.run('bob');
select tap.acquire('ann', '{a,b}', '{c}');
select tap.acquire('bob', '{a}');
select tap.is(tap.act('release_reservations', '{"run": "bob"}') -> 'released', '0'::jsonb, 'who waits gives up its place');
select tap.is_empty($$ select 1 from kilolock.reservation_queue $$, 'and is in the queue no more');
select tap.is(tap.act('release_reservations', '{"run": "ann"}') -> 'released', '3'::jsonb, 'who holds gives up all of it');
select tap.is_empty($$ select 1 from kilolock.resource_reservations $$, 'and holds nothing');
select tap.is(tap.act('release_reservations', '{"run": "ann"}') -> 'released', '0'::jsonb, 'releasing again is no error');
select tap.results_eq($$ select distinct r.status from kilolock.apply_runs r $$, $$ values ('running') $$, 'the run goes on');
select tap.is(tap.acquire('bob', '{a}'), 'granted', 'others can have it');
select tap.expire('bob');
select tap.throws_ok($$ select tap.act('release_reservations', '{"run": "bob"}') $$, 'KLC11', null, 'a run that is over has nothing to release');
select tap.throws_ok($$ select tap.act('release_reservations', '{"run": "nobody"}') $$, 'KLN11', null, 'an unknown run is refused');

rollback;
