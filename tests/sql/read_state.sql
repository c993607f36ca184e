-- kilolock.read_state
begin;

select tap.throws_ok($$ select * from kilolock.read_state(null, null, 'prod') $$, 'KLN01', null, 'a state never written is not there');
select tap.post('prod', tap.state(1, '[' || tap.block('a') || ']'));
select tap.post('prod', tap.state(2));
select tap.is((select string_agg(r.chunk, '') from kilolock.read_state(null, null, 'prod') r), tap.state(2), 'the head comes back byte for byte');
select tap.is((select string_agg(r.chunk, '') from kilolock.read_state('ws_default', 'env_default', 'prod', 1) r),
  tap.state(1, '[' || tap.block('a') || ']'), 'so does an older version, by the long form too');
select tap.throws_ok($$ select * from kilolock.read_state(null, null, 'prod', 3) $$, 'KLN03', null, 'a version that never was is not there');

rollback;
