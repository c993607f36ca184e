-- kilolock.read_capabilities
begin;

select tap.ok(kilolock.read_capabilities('{}', null) ->> 'time' is not null, 'it tells the time that leases go by');
select tap.is(kilolock.read_capabilities('{}', null)::jsonb #> '{protocols,state-engine}', '[1]'::jsonb, 'which versions of the protocol there are');
select tap.ok(kilolock.read_capabilities('{}', null)::jsonb -> 'features' ? 'delta-commit', 'what it can do');
select tap.is(
  (kilolock.read_capabilities('{}', null)::jsonb #>> '{limits,lease_seconds}')::int,
  (tap.run('ann') ->> 'lease_seconds')::int, 'and within which limits');

rollback;
