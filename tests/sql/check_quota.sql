-- kilolock.check_quota
begin;

create function tap.check(p_changes text, p_more text default '{}')
  returns json
  language sql
as $$
  select kilolock.check_quota(jsonb_build_object('state', 'prod', 'changes', p_changes::jsonb) || p_more::jsonb, null)
$$;
create function tap.limit(p_scope text, p_limits text)
  returns json
  language sql
as $$
  select kilolock.set_quota(jsonb_build_object('scope', p_scope, 'state', 'prod', 'limits', p_limits::jsonb), null)
$$;

-- Why, as JSON.
create function tap.why(p_changes text)
  returns text
  language sql
as $$
  select coalesce(json_agg(l ->> 'message') filter (where l ->> 'message' is not null), '[]')::text
  from json_array_elements(tap.check(p_changes) -> 'limits') l
$$;

-- Wrong requests
select tap.throws_ok(format('select tap.check(%L, %L)', x.changes, x.more), x.code, null, x.changes || x.more || ' is refused')
from (values
  ('{}', '{}', 'KLB06'), ('null', '{}', 'KLB06'), ('[1]', '{}', 'KLB06'), ('[{}]', '{}', 'KLB06'),
  ('[{"count":1,"mode":"managed"}]', '{}', 'KLB06'), ('[{"count":1,"mode":"managed","actions":[]}]', '{}', 'KLB06'),
  ('[{"count":-1,"mode":"managed","actions":["create"]}]', '{}', 'KLB06'), ('[{"count":"1","mode":"managed","actions":["create"]}]', '{}', 'KLB06'),
  ('[{"count":1.5,"mode":"managed","actions":["create"]}]', '{}', 'KLB06'), ('[{"count":1e99,"mode":"managed","actions":["create"]}]', '{}', 'KLB06'),
  ('[{"count":1,"mode":1,"actions":["create"]}]', '{}', 'KLB06'), ('[]', '{"state":1}', 'KLB05'), ('[]', '{"environment":"nope"}', 'KLN02')
) x(changes, more, code);
select tap.throws_ok($$ select kilolock.check_quota(null, null) $$, 'KLB05', null, 'a request must be one');

-- What a change counts
select tap.results_eq(
  format($$ select c ->> 'added', c ->> 'removed', c ->> 'verdict' from tap.check(%L) c $$, '[' || x.change || ']'),
  format($$ values (%L, %L, 'ok') $$, x.added, x.removed), x.label)
from (values
  ('{"count":3,"mode":"managed","actions":["create"]}', '3', '0', 'what is created adds'),
  ('{"count":3,"mode":"data","actions":["create"]},{"count":1,"mode":"data","actions":["read"]}', '0', '0', 'data sources count nothing'),
  ('{"count":2,"mode":"managed","actions":["delete"]}', '0', '2', 'what is deleted makes room'),
  ('{"count":2,"mode":"managed","actions":["forget"]}', '0', '2', 'and what is forgotten'),
  ('{"count":2,"mode":"managed","actions":["delete"],"deposed":true}', '0', '0', 'deposed objects never counted'),
  ('{"count":2,"mode":"managed","actions":["delete","create"]},{"count":2,"mode":"managed","actions":["create","delete"]},{"count":1,"mode":"managed","actions":["forget","create"]},{"count":1,"mode":"managed","actions":["create","forget"]}',
    '0', '0', 'replacing changes nothing'),
  ('{"count":2,"mode":"managed","actions":["update"]},{"count":2,"mode":"managed","actions":["no-op"]}', '0', '0', 'nor does an update or a move'),
  ('{"count":2,"mode":"managed","actions":["no-op"],"importing":true},{"count":1,"mode":"managed","actions":["delete","create"],"importing":true}', '3', '0', 'an import adds, whatever else it does'),
  ('{"count":1,"mode":"managed","actions":["delete"]},{"count":1,"mode":"managed","actions":["create"]}', '1', '1', 'what was gone and comes back does both'),
  ('', '0', '0', 'no change is none')
) x(change, added, removed, label);

-- A state that is not there yet
select tap.results_eq(
  $$ select l ->> 'scope', l ->> 'used', l ->> 'projected' from json_array_elements(tap.check('[{"count":3,"mode":"managed","actions":["create"]}]') -> 'limits') l
     where l ->> 'measure' = 'resources' $$,
  $$ values ('environment', '0', '3'), ('workspace', '0', '3') $$, 'a first plan counts in its environment');
select tap.limit('workspace', '{"resources_hard":2}');
select tap.is(tap.check('[{"count":3,"mode":"managed","actions":["create"]}]') ->> 'verdict', 'hard', 'and may be too much');

-- Soft and hard, in every scope
select tap.limit('workspace', '{"resources_hard":10}');
select tap.post('prod', tap.state(1, '[' || tap.block('a') || ',' || tap.block('b') || ',' || tap.block('c') || ']'));
select tap.post('other', tap.state(1, '[' || tap.block('a') || ']'));
select tap.limit('state', '{"resources_soft":4,"resources_hard":5}');
select tap.limit('environment', '{"resources_hard":7}');
select tap.results_eq(
  format($$ select tap.check(x) ->> 'verdict', tap.why(x) from (values ('[{"count":%s,"mode":"managed","actions":["create"]}]')) v(x) $$, x.n),
  format($$ values (%L, %L) $$, x.verdict, x.messages), format('%s more: %s', x.n, x.verdict))
from (values
  (1, 'ok', '[]'),
  (2, 'soft', '["state \"prod\" would have 5 managed resources, over its soft limit of 4"]'),
  (3, 'hard', '["state \"prod\" would have 6 managed resources, over its hard limit of 5"]'),
  (4, 'hard', '["state \"prod\" would have 7 managed resources, over its hard limit of 5", "environment \"env_default\" would have 8 managed resources, over its hard limit of 7"]'),
  (7, 'hard', '["state \"prod\" would have 10 managed resources, over its hard limit of 5", "environment \"env_default\" would have 11 managed resources, over its hard limit of 7", "workspace \"ws_default\" would have 11 managed resources, over its hard limit of 10"]')
) x(n, verdict, messages);
select tap.results_eq(
  $$ select l ->> 'scope', l ->> 'name', l ->> 'measure', l ->> 'used', l ->> 'projected', l ->> 'soft_limit', l ->> 'hard_limit', l ->> 'verdict'
     from json_array_elements(tap.check('[{"count":2,"mode":"managed","actions":["create"]}]') -> 'limits') l where l ->> 'measure' = 'resources' $$,
  $$ values ('state', 'prod', 'resources', '3', '5', '4', '5', 'soft'), ('environment', 'env_default', 'resources', '4', '6', null, '7', 'ok'),
            ('workspace', 'ws_default', 'resources', '4', '6', null, '10', 'ok') $$, 'every scope is shown with its numbers');
select tap.is(tap.why('[{"count":3,"mode":"managed","actions":["create"]},{"count":3,"mode":"managed","actions":["delete"]}]'),
  '["state \"prod\" may pass its hard limit of 5 while it goes on: the plan adds 3 resources and removes 3"]', 'creating before deleting may be too much in between');
select tap.is(tap.why('[{"count":3,"mode":"managed","actions":["create"]},{"count":3,"mode":"managed","actions":["delete"],"drift":true}]'),
  '[]', 'but not where they are gone already');

-- Above the limit already
select tap.limit('state', '{"resources_soft":null,"resources_hard":2}');
select tap.is(tap.check('[{"count":1,"mode":"managed","actions":["update"]}]') ->> 'verdict', 'soft', 'a plan that adds nothing fits above the limit');
select tap.is(tap.check('[{"count":1,"mode":"managed","actions":["delete"]}]') ->> 'verdict', 'ok', 'one that goes below is fine');
select tap.is(tap.check('[{"count":1,"mode":"managed","actions":["create"]}]') ->> 'verdict', 'hard', 'one that adds is not');

-- Bytes
select tap.limit('state', '{"resources_hard":null,"bytes_soft":10}');
select tap.is(tap.check('[]') ->> 'verdict', 'soft', 'bytes over the soft limit are told');
select tap.limit('state', '{"bytes_hard":20}');
select tap.is(tap.check('[{"count":1,"mode":"managed","actions":["create"]}]') ->> 'verdict', 'hard', 'bytes over the hard limit leave no room');
select tap.is(tap.check('[{"count":1,"mode":"managed","actions":["delete"]}]') ->> 'verdict', 'soft', 'but for less');
select tap.results_eq($$ select l ->> 'used', l ->> 'projected' from json_array_elements(tap.check('[]') -> 'limits') l where l ->> 'measure' = 'bytes' $$,
  $$ values ((select octet_length(tap.state(1, '[' || tap.block('a') || ',' || tap.block('b') || ',' || tap.block('c') || ']')))::text, null) $$,
  'bytes are shown where they are limited, but not projected');

rollback;
