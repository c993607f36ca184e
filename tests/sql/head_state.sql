-- kilolock.head_state
begin;

select tap.throws_ok($$ select * from kilolock.head_state(null, null, 'prod') $$, 'KLN01', null, 'a state never written is not there');
select tap.post('prod', tap.state(5));
select tap.results_eq(
  $$ select h.version, h.serial, h.raw_size, h.raw_md5 from kilolock.head_state(null, null, 'prod') h $$,
  $$ select 1::bigint, 5::numeric, octet_length(tap.state(5))::bigint, md5(tap.state(5)) $$, 'size and MD5 are those of the bytes');

rollback;
