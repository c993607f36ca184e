-- kilolock.blame
begin;

create function pg_temp.post(p_actor text, p_serial bigint, p_resources text) returns text language sql
as $$ select kilolock.write_state(null, null, 'prod', null, tap.state(p_serial, '[' || p_resources || ']'), null, p_actor) $$;
create function pg_temp.blame(p_address text) returns table (attribute text, value text, version bigint, actor text) language sql
as $$ select b.attribute, b.value::text, b.version, b.actor from kilolock.blame('prod', p_address) b $$;

select pg_temp.post('ann', 1, tap.block('a', '"n":1,"tags":{"Name":"x","Env":"p"},"l":[1,2],"e":{"k":1}'));
select pg_temp.post('bob', 2, tap.block('a', '"n":2,"tags":{"Name":"x","Env":"p"},"l":[1,3],"e":{}'));
select pg_temp.post('cat', 3, tap.block('a', '"n":3,"tags":{"Name":"x","Env":"q","New":null},"l":[1,3],"e":{}'));
select pg_temp.post('dan', 4, tap.block('a', '"n":2,"tags":{"Name":"x","Env":"q","New":null},"l":[1,3],"e":{}'));
select pg_temp.post('eve', 5, tap.block('b'));
select pg_temp.post('fay', 6, replace(tap.block('a', '"n":2,"tags":{"Name":"x","Env":"q","New":null},"l":[1,3],"e":{}'), '"name":"a"', '"name":"c"') || ',' || tap.block('b'));
select tap.throws_ok($$ select * from pg_temp.blame('test.a') $$, 'KLN04', null, 'what is not there any more has nobody to blame');
select tap.results_eq(
  $$ select distinct b.version, b.actor from pg_temp.blame('test.c') b $$, $$ values (6::bigint, 'fay') $$, 'what was made anew has nothing from before');

select pg_temp.post('ann', 11, tap.block('x', '"n":1,"tags":{"Name":"x","Env":"p"},"l":[1,2],"e":{"k":1}'));
select pg_temp.post('bob', 12, tap.block('x', '"n":2,"tags":{"Name":"x","Env":"p"},"l":[1,3],"e":{}'));
select pg_temp.post('cat', 13, tap.block('x', '"n":3,"tags":{"Name":"x","Env":"q","New":null},"l":[1,3],"e":{}'));
select pg_temp.post('dan', 14, replace(tap.block('x', '"n":2,"tags":{"Name":"x","Env":"q","New":null},"l":[1,3],"e":{}'), '"name":"x"', '"name":"y"'));
select tap.results_eq(
  $$ select * from pg_temp.blame('test.y') $$,
  $$ values ('e', '{}', 8::bigint, 'bob'), ('id', '"x"', 7, 'ann'), ('l[0]', '1', 7, 'ann'), ('l[1]', '3', 8, 'bob'), ('n', '2', 10, 'dan'),
       ('tags.Env', '"q"', 9, 'cat'), ('tags.Name', '"x"', 7, 'ann'), ('tags.New', 'null', 9, 'cat') $$,
  'each value is of who last changed it, through a move too');

select pg_temp.post('eve', 15, replace(tap.block('s', '"p":"hunter2"'), '"schema_version":0', '"schema_version":0,"sensitive_attributes":[[{"type":"get_attr","value":"p"}]]'));
select pg_temp.post('fay', 16, replace(tap.block('s', '"p":"hunter3"'), '"schema_version":0', '"schema_version":0,"sensitive_attributes":[[{"type":"get_attr","value":"p"}]]'));
select tap.results_eq(
  $$ select b.attribute, b.actor, b.sensitive, b.value::text like '%hunter%' from kilolock.blame('prod', 'test.s') b $$,
  $$ values ('id', 'eve', false, false), ('p', 'fay', true, false) $$, 'a secret is of who changed it, and stays one');
select tap.throws_ok($$ select * from kilolock.blame('none', 'test.a') $$, 'KLN01', null, 'an unknown state is refused');

rollback;
