-- The run of a refreshed document that was imported: its head was just written, so it ended as it began.
create or replace function kilolock._record_refresh(p_before kilolock.states, p_who text)
  returns void
  language sql
  set search_path = pg_catalog, pg_temp
as $$
  insert into kilolock.refresh_runs (state_id, who, status, base_version, version, drifted_count, started_at, finished_at)
  select s.id, p_who, case when c.drifted > 0 then 'drifted' else 'clean' end, p_before.head_version, s.head_version, c.drifted,
         s.updated_at, s.updated_at
  from kilolock.states s
  cross join lateral (select count(distinct (r.address, r.deposed_key)) as drifted from kilolock._refreshed(s) r) c
  where s.id = p_before.id and s.head_version > p_before.head_version
$$;

comment on function kilolock._record_refresh(kilolock.states, text) is
  'The run of a refreshed document that was imported.';
revoke all on function kilolock._record_refresh(kilolock.states, text) from public;
