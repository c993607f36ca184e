-- kilolock.unset_tag
begin;

select tap.post('prod', tap.state(1));
select kilolock.set_tag('{"state": "prod", "tag": "good"}', 'ann');
select tap.results_eq(
  $$ select c.state_name, c.tag, c.version, c.serial, c.actor from kilolock.current_tags c $$,
  $$ values ('prod', 'good', 1::bigint, 1::numeric, 'ann') $$, 'current_tags shows what a tag points to');
select tap.throws_ok($$ select kilolock.unset_tag('{"state": "prod", "tag": "bad"}', 'ann') $$, 'KLN05', null, 'a tag that is not there is refused');
select tap.throws_ok($$ select kilolock.unset_tag('{"state": "none", "tag": "good"}', 'ann') $$, 'KLN01', null, 'so is a state');
select tap.throws_ok($$ select kilolock.unset_tag('{"state": "prod"}', 'ann') $$, 'KLB06', null, 'and no name at all');
select tap.is((kilolock.unset_tag('{"state": "prod", "tag": "good"}', 'ann') ->> 'version'), '1', 'it tells where the tag pointed');
select tap.is_empty($$ select 1 from kilolock.tags $$, 'and the tag is gone');
select tap.throws_ok($$ select * from kilolock.read_state(null, null, 'prod', 'good') $$, 'KLN03', null, 'it means nothing any more');
select tap.results_eq(
  $$ select e.actor, e.payload ->> 'version' from kilolock.events e where e.kind = 'tag_unset' $$, $$ values ('ann', '1') $$, 'an event says who took it away');

rollback;
