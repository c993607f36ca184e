-- POST /v1/state-engine/reservations/acquire
--
-- All or nothing: either the run gets every address that it asks for, or it holds none of them and waits in the queue.
-- Asking again, at least every queue_seconds, keeps its place; the addresses may be left out then. A request is granted
-- once no Terraform lock, no reservation and no earlier request of another stands against it, so whoever came first is
-- served first among those that meet, and those that meet nobody go through at once. A waiting run holds nothing: there
-- is no cycle to wait in, in whatever order addresses are named.
--
-- A run that holds addresses may ask for others: they replace what it holds if that needs no waiting. Else it keeps what
-- it holds and is not queued; to wait for more it has to release first. Asking for other addresses while it waits is a
-- new request, at the end of the queue.
--
-- p_request  {"run", "write": [address, …], "read": [address, …], "base_version"}; base_version where it planned again
--
-- Answers {"granted": true, "run", "fencing", "expires_at", "base_version", "head_version", "changed": [address, …],
-- "changed_count", "outputs_changed"}: what in reach of its addresses changed between the two versions. Or {"granted":
-- false, "run", "holding", "place", "waiting_since", "expires_at", "head_version", "blockers": [{"kind": lock | reservation
-- | queue, "address", "wanted", "mode", "holder", "run", "lock_id", "since", "expires_at"}, …], "blockers_count"}.
--
-- Raises  KLB06, KLB11  the addresses are wrong or too many
--         KLC11  the run is over
--         KLN03  the state has no such base_version, or it was pruned
--         KLN11  no such run
-- Locks   the states row
create or replace function kilolock.acquire_reservations(p_request jsonb, p_actor text)
  returns json
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_limits   record;
  v_run      kilolock.apply_runs := kilolock._running_run(p_request);
  v_state    kilolock.states;
  v_writes   constant text[] := kilolock._requested_addresses(p_request, 'write');
  v_reads    constant text[] := kilolock._requested_addresses(p_request, 'read');
  v_old      kilolock.reservation_requests;
  v_new      kilolock.reservation_requests;
  v_check    kilolock.reservation_requests;
  v_holding  boolean;
  v_blockers record;
  v_changes  record;
  v_found    bigint := 0;
begin
  select l.* into v_limits from kilolock._reservation_limits() l;
  select s.* into v_state from kilolock.states s where s.id = v_run.state_id;
  v_run.base_version := kilolock._requested_integer(p_request, 'base_version', 0, 999999999999999999, v_run.base_version);
  if v_run.base_version > 0 then
    perform kilolock._version_of(v_state, v_run.base_version::text);
  end if;

  select q.* into v_old from kilolock.reservation_requests q where q.apply_run_id = v_run.id;
  v_holding := v_old.granted_at is not null;
  if not p_request ?| '{write,read}' then
    if v_old.id is null then
      raise exception 'apply run "%" names no addresses, and waits for none', v_run.id
        using errcode = 'KLB06', hint = 'Name them in "write" and "read". What is not asked for again in time loses its place.';
    end if;
    v_new := v_old;
  elsif v_writes = v_old.writes and v_reads = v_old.reads then
    v_new := v_old;
  elsif cardinality(v_writes || v_reads) > v_limits.addresses then
    raise exception 'apply run "%" names more than % addresses', v_run.id, v_limits.addresses
      using errcode = 'KLB11', hint = 'Reserve modules or resources instead of each of their instances.';
  else
    v_new.state_id := v_state.id;
    v_new.apply_run_id := v_run.id;
    v_new.writes := v_writes;
    v_new.reads := v_reads;
    v_new.write_paths := kilolock._covering_paths(v_writes);
    v_new.read_paths := kilolock._covering_paths(v_reads);
  end if;

  v_check := v_new;
  if v_holding and v_new.id is null then
    -- Of what it holds nobody can stand in the way.
    v_check.writes := kilolock._uncovered(v_new.writes, v_old.writes);
    v_check.reads := kilolock._uncovered(v_new.reads, v_old.writes || v_old.reads);
    v_check.write_paths := kilolock._covering_paths(v_check.writes);
    v_check.read_paths := kilolock._covering_paths(v_check.reads);
  end if;
  if not v_holding or v_new.id is null and cardinality(v_check.writes || v_check.reads) > 0 then
    select b.* into v_blockers from kilolock._find_blockers(v_check) b;
    v_found := v_blockers.total;
  end if;

  if v_holding and v_new.id is not null or v_holding and v_found > 0 then
    null;
  elsif v_new.id is not null then
    update kilolock.reservation_requests q
    set attempts = q.attempts + 1, granted_at = case when v_found = 0 then clock_timestamp() end,
        expires_at = clock_timestamp() + make_interval(secs => v_limits.queue_seconds)
    where q.id = v_new.id
    returning q.* into v_new;
  else
    delete from kilolock.reservation_requests q where q.id = v_old.id;
    insert into kilolock.reservation_requests (state_id, apply_run_id, holder, granted_at, expires_at, writes, reads,
      write_paths, read_paths)
    values (v_new.state_id, v_new.apply_run_id, v_run.holder, case when v_found = 0 then clock_timestamp() end,
      clock_timestamp() + make_interval(secs => v_limits.queue_seconds), v_new.writes, v_new.reads, v_new.write_paths,
      v_new.read_paths)
    returning * into v_new;
  end if;

  if v_found > 0 then
    return json_build_object('granted', false, 'run', v_run.id, 'holding', v_holding,
      'place', case when not v_holding then v_blockers.place end,
      'waiting_since', case when not v_holding then v_new.waiting_since end, 'expires_at', v_run.expires_at,
      'head_version', kilolock._head_version(v_state), 'blockers', v_blockers.blockers, 'blockers_count', v_found);
  end if;

  select c.* into v_changes from kilolock._changes_since(v_state, v_run.base_version, v_new) c;
  update kilolock.apply_runs r
  set base_version = v_run.base_version,
      verified_version = case when v_changes.total = 0 then kilolock._head_version(v_state) end,
      fencing = case when v_new.granted_at is distinct from v_old.granted_at
        then nextval('kilolock.apply_runs_fencing_seq') else r.fencing end
  where r.id = v_run.id
  returning r.* into v_run;
  return json_build_object('granted', true, 'run', v_run.id, 'fencing', v_run.fencing, 'expires_at', v_run.expires_at,
    'base_version', v_run.base_version, 'head_version', kilolock._head_version(v_state),
    'changed', v_changes.changed, 'changed_count', v_changes.total, 'outputs_changed', v_changes.outputs_changed);
end;
$$;

comment on function kilolock.acquire_reservations(jsonb, text) is
  'Reserve addresses of a state for an apply run, or wait for them in the queue.';
revoke all on function kilolock.acquire_reservations(jsonb, text) from public;
grant execute on function kilolock.acquire_reservations(jsonb, text) to kilolock_app;
