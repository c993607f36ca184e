-- Whether a write or delete with this ID may go on, given who holds the state.
--
-- Called with the states row locked. The lock row is returned when the caller holds it, else null. Apply runs write what
-- they reserved with commit_delta; any other write waits until nothing is reserved.
--
-- Raises  KLL11  not locked, but an apply run reserves addresses; DETAIL is a LockInfo that describes the run
--         KLL01  locked, and the caller gave no ID; DETAIL is the holder's LockInfo
--         KLC01  the ID is not the holder's, or there is no lock at all: a writer whose lock was taken away
create or replace function kilolock._check_lock(p_state kilolock.states, p_lock_id text)
  returns kilolock.state_locks
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_lock     kilolock.state_locks;
  v_obstacle text;
begin
  select l.* into v_lock from kilolock.state_locks l where l.state_id = p_state.id;
  if not found then
    if p_lock_id is null then
      if exists (select from kilolock.reservation_requests q where q.state_id = p_state.id) then
        perform kilolock._sweep_runs(p_state.id);
        v_obstacle := kilolock._obstacle(p_state);
      end if;
      if v_obstacle is not null then
        raise exception 'addresses of state "%" are reserved by apply run "%" of %', p_state.name,
            v_obstacle::json ->> 'ID', v_obstacle::json ->> 'Who'
          using errcode = 'KLL11', detail = v_obstacle,
                hint = format('Wait for it, or end it with kl apply abort %s if its owner is gone.', v_obstacle::json ->> 'ID');
      end if;
      return null;
    end if;
    raise exception 'state "%" is not locked, but the request carries lock ID "%"', p_state.name, p_lock_id
      using errcode = 'KLC01',
            hint = 'The lock was released or forced open meanwhile. Keep the errored.tfstate that Terraform wrote and push it under a new lock.';
  elsif coalesce(p_lock_id, '') = '' then
    raise exception 'state "%" is locked by %', p_state.name, coalesce(nullif(v_lock.who, ''), 'another client')
      using errcode = 'KLL01', detail = v_lock.lock_info,
            hint = format('Wait for it, or run terraform force-unlock %s if its owner is gone.', v_lock.lock_id);
  elsif v_lock.lock_id <> p_lock_id then
    raise exception 'state "%" is locked by % with ID "%", not "%"', p_state.name,
        coalesce(nullif(v_lock.who, ''), 'another client'), v_lock.lock_id, p_lock_id
      using errcode = 'KLC01', detail = v_lock.lock_info,
            hint = 'The lock passed to somebody else meanwhile; run again when it is free.';
  end if;
  return v_lock;
end;
$$;

comment on function kilolock._check_lock(kilolock.states, text) is
  'The callers lock of a state; an error when somebody elses stands in the way.';
revoke all on function kilolock._check_lock(kilolock.states, text) from public;
