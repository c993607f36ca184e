-- LOCK /v1/states/{name}
--
-- Creates the state on first use, since Terraform locks before its first write. The same ID again is the retry of
-- a client that missed the answer. A held lock is seen without waiting; where a write without a lock has the states
-- row, the wait is short, so that the answer comes within a second.
--
-- Raises  KLB02  the body is no LockInfo with an ID
--         KLL01  held by another; DETAIL is the holder's LockInfo
--         KLL02  a write without a lock is in progress; DETAIL is a LockInfo that says so
-- Locks   the states row
create or replace function kilolock.acquire_lock(
  p_workspace text, p_environment text, p_name text, p_body bytea, p_actor text
)
  returns void
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
  set lock_timeout = '700ms'
as $$
declare
  v_new   kilolock.state_locks := kilolock._read_lock_info(p_body);
  v_lock  kilolock.state_locks;
  v_state kilolock.states;
begin
  select l.* into v_lock
  from kilolock.state_locks l
  join kilolock.states s on s.id = l.state_id
  where s.environment_id = kilolock._environment_id(p_workspace, p_environment) and s.name = p_name;

  if not found then
    begin
      v_state := kilolock._lock_state_row(p_workspace, p_environment, p_name, p_create => true);
    exception when lock_not_available then
      raise exception 'state "%" is being written by a client that holds no lock', p_name
        using errcode = 'KLL02', hint = 'Try again in a moment, or use -lock-timeout.',
              detail = json_build_object('ID', 'write-in-progress', 'Operation', 'write',
                'Info', 'a write without a lock is in progress', 'Who', 'kilolock', 'Version', '',
                'Created', to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
                'Path', p_name)::text;
    end;
    select l.* into v_lock from kilolock.state_locks l where l.state_id = v_state.id;
  end if;

  if found then
    if v_lock.lock_id = v_new.lock_id then
      return;
    end if;
    raise exception 'state "%" is locked by %', p_name, coalesce(nullif(v_lock.who, ''), 'another client')
      using errcode = 'KLL01', detail = v_lock.lock_info,
            hint = format('Wait for it, or run terraform force-unlock %s if its owner is gone.', v_lock.lock_id);
  end if;

  insert into kilolock.state_locks (state_id, lock_id, operation, info, who, version, created, path, lock_info)
  values (v_state.id, v_new.lock_id, v_new.operation, v_new.info, v_new.who, v_new.version, v_new.created,
          v_new.path, v_new.lock_info);
  insert into kilolock.events (state_id, kind, actor, payload)
  values (v_state.id, 'lock_acquire', coalesce(p_actor, nullif(v_new.who, ''), 'anonymous'),
          jsonb_build_object('lock_id', v_new.lock_id, 'operation', v_new.operation, 'who', v_new.who));
end;
$$;

comment on function kilolock.acquire_lock(text, text, text, bytea, text) is
  'Take the Terraform lock of a state; KLL01 with the holder in DETAIL when it is held.';
revoke all on function kilolock.acquire_lock(text, text, text, bytea, text) from public;
grant execute on function kilolock.acquire_lock(text, text, text, bytea, text) to kilolock_app;
