-- Refuse a change that was decided on a head which is not the head any more.
--
-- p_base  the version that the caller saw, 0 where the state was deleted; null where it did not look
--
-- Raises  KLB06  base is no version number
--         KLC21  another version is the head now
create or replace function kilolock._check_base(p_state kilolock.states, p_base text)
  returns void
  language plpgsql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_now constant bigint := case when p_state.current_version_id is null then 0 else p_state.head_version end;
begin
  if p_base !~ '^[0-9]{1,18}$' then
    raise exception '"base" of the request is "%", not a version number', left(p_base, 40)
      using errcode = 'KLB06', hint = 'Send the version that the change was decided on, or leave it out.';
  elsif p_base::bigint <> v_now then
    raise exception 'state "%" has moved on from version % to version % meanwhile', p_state.name, p_base, v_now
      using errcode = 'KLC21', hint = 'Nothing was changed. Look at it again.';
  end if;
end;
$$;

comment on function kilolock._check_base(kilolock.states, text) is
  'Refuse a change that was decided on an older head.';
revoke all on function kilolock._check_base(kilolock.states, text) from public;
