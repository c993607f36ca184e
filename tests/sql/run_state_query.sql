-- kilolock.run_state_query
begin;

select tap.post('prod', tap.state(1));
select tap.throws_ok($$ select kilolock.run_state_query('select 1', null, null) $$, 'KLP01', null, 'a transaction that may write is refused');
set transaction read only;
select tap.results_eq(
  $$ select kilolock.run_state_query('select octet_length(raw_state::text) as n from state_versions', null, null)::json ->> 'n' $$,
  $$ select octet_length(tap.state(1))::text $$, 'raw_state is the document');
select tap.throws_ok($$ select kilolock.run_state_query('select salt from state_salts', null, null) $$, '42501', null, 'the salts are for nobody');
select tap.throws_ok($$ select count(*) from kilolock.run_state_query('select repeat(''x'', 90000000) from generate_series(1, 3)', null, null) $$,
  'KLB08', null, 'an answer has an end');

rollback;
