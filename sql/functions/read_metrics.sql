-- GET /metrics: what the database knows, in Prometheus text.
create or replace function kilolock.read_metrics()
  returns text
  language sql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
as $$
  select string_agg(format(e'# HELP %1$s %2$s\n# TYPE %1$s %3$s\n%1$s %4$s\n', m.name, m.help, m.type, m.value), '' order by m.name)
  from (
    select 'kilolock_states' as name, 'States that have a head.' as help, 'gauge' as type,
           (select count(*) from kilolock.states s where s.current_version_id is not null) as value
    union all
    select 'kilolock_resources', 'Live resource instances.', 'gauge',
           (select coalesce(sum(s.resource_count), 0) from kilolock.states s)
    union all
    select 'kilolock_state_locks', 'Terraform locks held.', 'gauge', (select count(*) from kilolock.state_locks l)
    union all
    select 'kilolock_oldest_lock_seconds', 'Age of the oldest lock held.', 'gauge',
           (select coalesce(round(extract(epoch from clock_timestamp() - min(l.acquired_at)), 3), 0) from kilolock.state_locks l)
    union all
    select 'kilolock_apply_runs', 'Apply runs that are alive.', 'gauge',
           (select count(*) from kilolock.apply_runs r where r.status = 'running' and r.expires_at > clock_timestamp())
    union all
    select 'kilolock_reservation_queue', 'Apply runs and LOCKs that wait.', 'gauge', (select count(*) from kilolock.reservation_queue q)
    union all
    select 'kilolock_state_versions', 'Versions stored.', 'gauge',
           (select count(*) from kilolock.version_documents d where d.pruned_at is null)
    union all
    select 'kilolock_database_bytes', 'Size of the database in bytes.', 'gauge', pg_database_size(current_database())
  ) m
$$;

comment on function kilolock.read_metrics() is
  'States, resources, locks and versions in Prometheus text.';
revoke all on function kilolock.read_metrics() from public;
grant execute on function kilolock.read_metrics() to kilolock_app;
