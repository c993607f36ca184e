-- LockInfo of whoever keeps others from a state as a whole without holding its lock; null where nobody does.
--
-- Called with the states row locked and what is overdue swept. Reservations stand in the way of every lock and of every
-- write that is not their run's. Waiting requests stand in the way of a LOCK that came later than they, p_waiting says
-- so; p_lock_id is that LOCK, which may have a place of its own.
create or replace function kilolock._obstacle(
  p_state kilolock.states, p_waiting boolean default false, p_lock_id text default null
)
  returns text
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_request kilolock.reservation_requests;
  v_run     kilolock.apply_runs;
  v_more    bigint;
  v_listed  text;
  v_info    text;
begin
  select q.* into v_request
  from kilolock.reservation_requests q
  where q.state_id = p_state.id and q.granted_at is not null
  order by q.granted_at, q.id
  limit 1;
  if not found and p_waiting then
    select q.* into v_request
    from kilolock.reservation_requests q
    where q.state_id = p_state.id and q.lock_id is distinct from p_lock_id and (q.lock_id is null or q.attempts > 1)
      and q.id < all (
        select o.id from kilolock.reservation_requests o where o.state_id = p_state.id and o.lock_id = p_lock_id)
    order by q.id
    limit 1;
  end if;
  if v_request.id is null then
    return null;
  end if;

  select r.* into v_run from kilolock.apply_runs r where r.id = v_request.apply_run_id;
  select count(*) into v_more
  from kilolock.reservation_requests q
  where q.state_id = p_state.id and q.granted_at is not null and q.id <> v_request.id;
  -- A terminal will show it as it is.
  select string_agg(regexp_replace(left(a.address, 100), '[\u0001-\u001f\u007f-\u009f]', '?', 'g'), ', ' order by a.n)
           filter (where a.n <= 5) || case when count(*) > 5 then format(' … (%s in all)', count(*)) else '' end
  into v_listed
  from unnest(v_request.writes || v_request.reads) with ordinality a(address, n);
  if v_request.lock_id is not null then
    v_info := format('waits for the lock since %s, longer than you', kilolock._show_time(v_request.waiting_since));
  elsif v_request.granted_at is null then
    v_info := concat('waits since ', kilolock._show_time(v_request.waiting_since), ', longer than you, for ', v_listed);
  else
    v_info := format('reserves until %s, or longer if it renews: %s%s. To end it: kl apply abort %s',
      kilolock._show_time(v_run.expires_at), coalesce(v_listed, 'no address'),
      case when v_more > 0 then format('. Other runs reserve too: %s, see kl status', v_more) else '' end, v_run.id);
  end if;
  return kilolock._lock_info(coalesce(v_run.id, v_request.lock_id), case when v_run.id is null then 'lock' else 'kl apply' end,
    v_info, v_request.holder, coalesce(v_run.started_at, v_request.waiting_since), p_state.name);
end;
$$;

comment on function kilolock._obstacle(kilolock.states, boolean, text) is
  'LockInfo of whoever keeps others from a state without holding its lock.';
revoke all on function kilolock._obstacle(kilolock.states, boolean, text) from public;
