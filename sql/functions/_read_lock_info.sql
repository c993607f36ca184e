-- The LockInfo that Terraform sends with LOCK, as a row of state_locks without its state.
--
-- The ID has to be a string: whoever is refused gets this LockInfo, and Terraform reads no other.
--
-- Raises  KLB02  not UTF-8, not a JSON object, or without an ID
create or replace function kilolock._read_lock_info(p_body bytea)
  returns kilolock.state_locks
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_lock kilolock.state_locks;
  v_info json;
begin
  begin
    v_lock.lock_info := convert_from(p_body, 'UTF8');
    v_info := kilolock._clean_json(v_lock.lock_info)::json;
  exception when data_exception then
    v_info := null;
  end;
  if v_info is null or json_typeof(v_info) <> 'object' or coalesce(json_typeof(v_info -> 'ID'), '') <> 'string' or v_info ->> 'ID' = '' then
    raise exception 'the body is no lock info with an ID'
      using errcode = 'KLB02', hint = 'Send the LockInfo JSON that Terraform sends: {"ID": …, "Operation": …, "Who": …}.';
  end if;
  v_lock.lock_id := v_info ->> 'ID';
  v_lock.operation := coalesce(v_info ->> 'Operation', '');
  v_lock.info := coalesce(v_info ->> 'Info', '');
  v_lock.who := coalesce(v_info ->> 'Who', '');
  v_lock.version := coalesce(v_info ->> 'Version', '');
  v_lock.path := coalesce(v_info ->> 'Path', '');
  begin
    v_lock.created := v_info ->> 'Created';
  exception when data_exception then
    v_lock.created := null;
  end;
  return v_lock;
end;
$$;

comment on function kilolock._read_lock_info(bytea) is
  'LockInfo JSON as a row of state_locks.';
revoke all on function kilolock._read_lock_info(bytea) from public;
