-- LOCK /v1/states/{name}
--
-- Creates the state on first use, since Terraform locks before its first write. The same ID again is the retry of
-- a client that missed the answer. A held lock is seen without waiting; where a write without a lock has the states
-- row, the wait is short, so that the answer comes within a second.
--
-- A state of which apply runs reserve anything cannot be locked. Terraform cannot queue, but with -lock-timeout it tries
-- again under the same ID: from the second try on such a LOCK has its place among those that wait for reservations, as
-- one that wants all of the state, so that neither side starves. Where that matters the refusal is an answer and no
-- error, since an error would undo the note of it.
--
-- Answers null when the lock is taken; else LockInfo of who stands in the way, and the caller is noted in the queue.
--
-- Raises  KLB02  the body is no LockInfo with an ID
--         KLL01  held by another, and no apply run is about; DETAIL is the holder's LockInfo
--         KLL02  a write without a lock is in progress; DETAIL is a LockInfo that says so
-- Locks   the states row
create or replace function kilolock.request_lock(
  p_workspace text, p_environment text, p_name text, p_body bytea, p_actor text
)
  returns text
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
  set lock_timeout = '700ms'
as $$
declare
  v_new    constant kilolock.state_locks := kilolock._read_lock_info(p_body);
  v_state  kilolock.states;
  v_lock   kilolock.state_locks;
  v_locked boolean := false;
  v_holder text;
begin
  select s.* into v_state
  from kilolock.states s
  where s.environment_id = kilolock._environment_id(p_workspace, p_environment) and s.name = p_name;
  select l.* into v_lock from kilolock.state_locks l where l.state_id = v_state.id;

  if v_lock.lock_id is distinct from v_new.lock_id and (
    v_lock.lock_id is null or exists (select from kilolock.reservation_requests q where q.state_id = v_state.id)
  ) then
    begin
      v_state := kilolock._lock_state_row(p_workspace, p_environment, p_name, p_create => true);
      v_locked := true;
    exception when lock_not_available then
      if v_lock.lock_id is null then
        raise exception 'state "%" is being written by a client that holds no lock', p_name
          using errcode = 'KLL02', hint = 'Try again in a moment, or use -lock-timeout.',
                detail = kilolock._lock_info('write-in-progress', 'write', 'a write without a lock is in progress',
                  'kilolock', clock_timestamp(), p_name);
      end if;
    end;
  end if;
  if v_locked then
    perform kilolock._sweep_runs(v_state.id);
    select l.* into v_lock from kilolock.state_locks l where l.state_id = v_state.id;
    v_holder := coalesce(v_lock.lock_info, kilolock._obstacle(v_state, true, v_new.lock_id));
  end if;

  if v_lock.lock_id = v_new.lock_id then
    return null;
  elsif v_locked and v_holder is null then
    insert into kilolock.state_locks (state_id, lock_id, operation, info, who, version, created, path, lock_info)
    values (v_state.id, v_new.lock_id, v_new.operation, v_new.info, v_new.who, v_new.version, v_new.created,
            v_new.path, v_new.lock_info);
    delete from kilolock.reservation_requests q where q.state_id = v_state.id and q.lock_id = v_new.lock_id;
    insert into kilolock.events (state_id, kind, actor, payload)
    values (v_state.id, 'lock_acquire', coalesce(p_actor, nullif(v_new.who, ''), 'anonymous'),
            jsonb_build_object('lock_id', v_new.lock_id, 'operation', v_new.operation, 'who', v_new.who));
    return null;
  elsif v_locked and exists (select from kilolock.reservation_requests q where q.state_id = v_state.id) then
    update kilolock.reservation_requests q
    set attempts = q.attempts + 1, expires_at = clock_timestamp() + make_interval(secs => l.queue_seconds)
    from kilolock._reservation_limits() l
    where q.state_id = v_state.id and q.lock_id = v_new.lock_id;
    if not found then
      insert into kilolock.reservation_requests (state_id, lock_id, holder, expires_at)
      select v_state.id, v_new.lock_id, coalesce(nullif(v_new.who, ''), p_actor, 'anonymous'),
             clock_timestamp() + make_interval(secs => l.queue_seconds)
      from kilolock._reservation_limits() l;
    end if;
    return v_holder;
  end if;
  raise exception 'state "%" is locked by %', p_name, coalesce(nullif(v_lock.who, ''), 'another client')
    using errcode = 'KLL01', detail = v_lock.lock_info,
          hint = format('Wait for it, or run terraform force-unlock %s if its owner is gone.', v_lock.lock_id);
end;
$$;

comment on function kilolock.request_lock(text, text, text, bytea, text) is
  'Take the Terraform lock of a state; KLL01, or LockInfo as the answer, says who holds it.';
revoke all on function kilolock.request_lock(text, text, text, bytea, text) from public;
grant execute on function kilolock.request_lock(text, text, text, bytea, text) to kilolock_app;
