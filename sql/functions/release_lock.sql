-- UNLOCK /v1/states/{name} and POST /v1/state-unlock/{name}
--
-- The ID comes as ?ID=, in a LockInfo, or as a bare word. No ID and no body is what terraform force-unlock sends:
-- it opens the lock, whoever holds it. Not locked is no error, since clients repeat an UNLOCK whose answer was lost.
--
-- A refused LOCK names the apply run that stands in its way as if it were a lock. So the ID of a run ends that run, and
-- where the state is not locked, force ends the one run that reserves addresses. Of several it ends none: Terraform
-- does not say which it was told.
--
-- Raises  KLB02  the body is broken JSON, or a LockInfo without an ID
--         KLC02  another holds the lock; DETAIL is the holder's LockInfo
--         KLC16  by force, but several apply runs reserve addresses
-- Locks   the states row
create or replace function kilolock.release_lock(
  p_workspace text, p_environment text, p_name text, p_lock_id text, p_body bytea, p_actor text
)
  returns void
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_id    text := nullif(p_lock_id, '');
  v_body  text;
  v_state kilolock.states;
  v_lock  kilolock.state_locks;
  v_runs  bigint;
  v_run_id text;
  v_run   kilolock.apply_runs;
begin
  begin
    v_body := btrim(convert_from(coalesce(p_body, ''), 'UTF8'), e' \t\r\n');
  exception when data_exception then
    raise exception 'the body is not UTF-8' using errcode = 'KLB02', hint = 'Send the LockInfo, a bare lock ID or nothing.';
  end;
  if v_id is null and v_body <> '' then
    v_id := case
      when v_body like '{%' then (kilolock._read_lock_info(p_body)).lock_id
      else btrim(v_body, '"')
    end;
  end if;

  begin
    v_state := kilolock._lock_state_row(p_workspace, p_environment, p_name, p_create => false);
  exception when sqlstate 'KLN01' then
    return;
  end;
  select l.* into v_lock from kilolock.state_locks l where l.state_id = v_state.id;
  if found and v_id <> v_lock.lock_id then
    raise exception 'state "%" is locked by % with ID "%", not "%"', p_name,
        coalesce(nullif(v_lock.who, ''), 'another client'), v_lock.lock_id, v_id
      using errcode = 'KLC02', detail = v_lock.lock_info,
            hint = format('Only its holder releases it; terraform force-unlock %s opens it by force.', v_lock.lock_id);
  end if;
  if not found then
    perform kilolock._sweep_runs(v_state.id);
    if v_id is null then
      select count(*), min(q.apply_run_id) into v_runs, v_run_id
      from kilolock.reservation_requests q
      where q.state_id = v_state.id and q.granted_at is not null;
      if v_runs > 1 then
        raise exception 'addresses of state "%" are reserved by % apply runs', p_name, v_runs
          using errcode = 'KLC16', hint = 'kl status shows them; end one with kl apply abort RUN.';
      end if;
    end if;
    select r.* into v_run
    from kilolock.apply_runs r
    where r.state_id = v_state.id and r.id = coalesce(v_id, v_run_id) and r.status = 'running';
    if found then
      perform kilolock._end_run(v_run, 'aborted', concat('aborted by ', coalesce(p_actor, 'anonymous'), ' with an unlock'),
        coalesce(p_actor, 'anonymous'));
      return;
    elsif v_id is not null then
      return;
    end if;
  end if;

  delete from kilolock.state_locks l where l.state_id = v_state.id;
  insert into kilolock.events (state_id, kind, actor, payload)
  values (v_state.id, case when v_id is null then 'lock_force_release' else 'lock_release' end,
          coalesce(p_actor, case when v_id is not null then nullif(v_lock.who, '') end, 'anonymous'),
          jsonb_build_object('lock_id', v_lock.lock_id, 'who', v_lock.who));
end;
$$;

comment on function kilolock.release_lock(text, text, text, text, bytea, text) is
  'Release the Terraform lock of a state; by force when no ID is given.';
revoke all on function kilolock.release_lock(text, text, text, text, bytea, text) from public;
grant execute on function kilolock.release_lock(text, text, text, text, bytea, text) to kilolock_app;
