-- kilolock.run_query
begin;

select tap.post('prod', tap.state(1, '[' || tap.block('a') || ']'));
select tap.throws_ok($$ select kilolock.run_query('select 1', null, null) $$, 'KLP01', null, 'a transaction that may write is refused');
set transaction read only;
select tap.results_eq(
  $$ select kilolock.run_query('select address, ($1)[1] as arg from resources; -- all', array['x'], 5) $$,
  $$ values ('{"address":"test.a","arg":"x"}') $$, 'bare names, arguments, a closing semicolon');
select tap.results_eq(
  $$ select count(*) from kilolock.run_query('select generate_series(1, 10)', null, 3) $$, $$ values (3::bigint) $$, 'no more rows than the limit');
select tap.throws_ok($$ select kilolock.run_query('select raw_state from state_versions', null, null) $$, '42501', null, 'raw_state is not for readers');
select tap.throws_ok($$ select kilolock.run_query('select data from document_chunks', null, null) $$, '42501', null, 'nor are the chunks');
select tap.throws_ok($$ select kilolock.run_query('select salt from state_salts', null, null) $$, '42501', null, 'nor the salts');
select tap.throws_ok($$ select kilolock.run_query('select set_config(''role'', ''none'', true)', null, null) $$, '42501', null, 'a query cannot take another role');
select tap.throws_ok($$ select kilolock.run_query('select 1; select 2', null, null) $$, '42P11', null, 'two statements are refused');
select tap.throws_ok($$ select kilolock.run_query('delete from resources returning 1', null, null) $$, null, null, 'a write is refused');
select tap.throws_ok($$ select count(*) from kilolock.run_query('select repeat(''x'', 90000000) from generate_series(1, 3)', null, null) $$,
  'KLB08', null, 'an answer has an end');

rollback;
