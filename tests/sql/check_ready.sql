-- kilolock.check_ready
begin;

select tap.lives_ok($$ select kilolock.check_ready() $$, 'a primary that is installed is ready');

rollback;
