-- kilolock.quota_usage
begin;

select tap.post('prod', tap.state(1, '[' || tap.block('a') || ',' || tap.block('b') || ']'));
select tap.results_eq(
  $$ select u.scope, u.workspace, u.environment, u.state, u.used, u.soft_limit, u.hard_limit, u.remaining, u.status from kilolock.quota_usage u
     where u.measure = 'resources' order by 1 $$,
  $$ values ('environment', 'ws_default', 'env_default', null, 2::bigint, null::bigint, null::bigint, null::bigint, 'no limit'),
            ('state', 'ws_default', 'env_default', 'prod', 2, null, null, null, 'no limit'),
            ('workspace', 'ws_default', null, null, 2, null, null, null, 'no limit') $$,
  'what nobody limited shows what it holds');
select kilolock.set_quota('{"scope":"environment","limits":{"resources_soft":1,"resources_hard":10}}', null);
select tap.results_eq(
  $$ select u.scope, u.measure, u.remaining, u.status from kilolock.quota_usage u where u.quota_id is not null order by 2 desc $$,
  $$ values ('environment', 'resources', 8::bigint, 'over soft limit'), ('environment', 'bytes', null, 'no limit') $$, 'a limit says what it leaves');
set local role kilolock_reader;
select tap.is((select count(*) from kilolock.quota_usage u), 6::bigint, 'readers see it');
select tap.is((select q.resources_hard from kilolock.quotas q), 10::bigint, 'and the limits themselves');

rollback;
