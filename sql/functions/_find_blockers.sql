-- What stands between a request and the addresses that it wants: the Terraform lock, what other runs hold, and what was
-- asked for before. total = 0 means that it can be granted. place is 1 more than the waiting requests before it that it
-- meets; blockers lists the first of what was found, as acquire_reservations answers it.
--
-- Two addresses meet if one covers the other, one of the two is to be written, and the runs differ. That is so where an
-- address of one side is among the paths of the other, so sets are compared by hash and not pair by pair. A row is an
-- address at which two sets meet, the upper one of a pair: one row where module.m is wanted and 5,000 instances in it
-- are held.
--
-- p_request  a request that has its arrays; its id is its place, null for the last one. Addresses it need not ask for
--            are left out of the arrays by the caller.
create or replace function kilolock._find_blockers(
  p_request kilolock.reservation_requests, out total bigint, out place bigint, out blockers json
)
  language sql
  stable
  set search_path = pg_catalog, pg_temp
  set enable_nestloop = off
  set work_mem = '64MB'
as $$
  with other as materialized (
    select q.id, q.apply_run_id, q.granted_at, q.writes, q.reads, q.write_paths, q.read_paths
    from kilolock.reservation_requests q
    where q.state_id = p_request.state_id and q.apply_run_id <> p_request.apply_run_id
      and (q.granted_at is not null or q.id < p_request.id or p_request.id is null)
  ),
  wanted as materialized (
    select x.address, x.path, x.writes
    from (
      select w.address, true as path, true as writes from unnest(p_request.write_paths) w(address)
      union all
      select r.address, true, false from unnest(p_request.read_paths) r(address)
      union all
      select w.address, false, true from unnest(p_request.writes) w(address)
      union all
      select r.address, false, false from unnest(p_request.reads) r(address)
    ) x
  ),
  found as (
    select o.id, x.address, 'write' as mode
    from other o
    cross join unnest(o.writes) x(address)
    join wanted w on w.address = x.address and w.path
    union all
    select o.id, x.address, 'read'
    from other o
    cross join unnest(o.reads) x(address)
    join wanted w on w.address = x.address and w.path and w.writes
    union all
    select o.id, x.address, 'write'
    from other o
    cross join unnest(o.write_paths) x(address)
    join wanted w on w.address = x.address and not w.path
    union all
    select o.id, x.address, 'read'
    from other o
    cross join unnest(o.read_paths) x(address)
    join wanted w on w.address = x.address and not w.path and w.writes
  ),
  meeting as (
    select f.id, f.address, max(f.mode) as mode
    from found f
    group by f.id, f.address
  ),
  blocker as materialized (
    select x.*, row_number() over (order by x.rank, x.request_id, x.meeting collate "C") as n
    from (
      select 1 as rank, 'lock' as kind, null::bigint as request_id, null as meeting, null as mode, l.who as holder,
             null as run, l.lock_id, l.acquired_at as since, null::timestamptz as expires_at
      from kilolock.state_locks l
      where l.state_id = p_request.state_id
      union all
      select case when q.granted_at is null then 3 else 2 end, case when q.granted_at is null then 'queue' else 'reservation' end,
             q.id, m.address, m.mode, q.holder, q.apply_run_id, null, coalesce(q.granted_at, q.waiting_since),
             case when q.granted_at is null then q.expires_at else r.expires_at end
      from meeting m
      join kilolock.reservation_requests q on q.id = m.id
      join kilolock.apply_runs r on r.id = q.apply_run_id
      union all
      select 3, 'queue', q.id, null, null, q.holder, null, q.lock_id, q.waiting_since, q.expires_at
      from kilolock.reservation_requests q
      where q.state_id = p_request.state_id and q.lock_id is not null and q.attempts > 1
        and (q.id < p_request.id or p_request.id is null)
    ) x
  ),
  -- Only of the few that are listed it is worth finding out which addresses meet.
  listed as materialized (
    select b.*, o.writes, o.reads
    from blocker b
    left join other o on o.id = b.request_id
    where b.n <= (select l.listed from kilolock._reservation_limits() l)
  )
  select (select count(*) from blocker b),
         (select 1 + count(distinct b.request_id) from blocker b where b.kind = 'queue'),
         (select json_agg(json_build_object('kind', b.kind,
            'address', kilolock._address_below(case b.mode when 'write' then b.writes else b.reads end, b.meeting),
            'wanted', kilolock._address_below(p_request.writes || p_request.reads, b.meeting), 'mode', b.mode,
            'holder', b.holder, 'run', b.run, 'lock_id', b.lock_id, 'since', b.since, 'expires_at', b.expires_at) order by b.n)
          from listed b)
$$;

comment on function kilolock._find_blockers(kilolock.reservation_requests) is
  'What stands between a request for addresses and its grant.';
revoke all on function kilolock._find_blockers(kilolock.reservation_requests) from public;
