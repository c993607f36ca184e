-- kilolock.read_metrics
begin;

select tap.post('prod', tap.state(1, '[' || tap.block('a') || ']'));
select tap.lock('prod', 'x');
select tap.alike(kilolock.read_metrics(), e'%# TYPE kilolock_states gauge\nkilolock_states 1\n%', 'states are counted');
select tap.alike(kilolock.read_metrics(), e'%\nkilolock_resources 1\n%', 'resources are counted');
select tap.alike(kilolock.read_metrics(), e'%\nkilolock_state_locks 1\n%', 'locks are counted');

rollback;
