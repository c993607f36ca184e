-- kilolock.stage_archive_record
begin;

select kilolock.stage_archive_record('00000000-0000-4000-8000-000000000001', 0, 'C', '\x00ff');
select tap.results_eq($$ select r.n, r.kind, r.data from kilolock.archive_records r $$, $$ values (0::bigint, 'C', '\x00ff'::bytea) $$,
  'a record is kept as it came');
select tap.throws_ok(
  $$ select kilolock.stage_archive_record('00000000-0000-4000-8000-000000000001', 0, 'V', '') $$, '23505', null,
  'a number stands for one record');

rollback;
