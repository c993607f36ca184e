-- kilolock.check_ready
begin;

select tap.lives_ok($$ select kilolock.check_ready() $$, 'a primary that is installed is ready');
set transaction read only;
select tap.throws_ok($$ select kilolock.check_ready() $$, '57P03', 'the database is read only', 'one that takes no writes is not');

rollback;
