-- The lock ID by which a refresh names its run.
--
-- Raises  KLB06  it is missing, empty or too long
create or replace function kilolock._requested_lock_id(p_request jsonb)
  returns text
  language plpgsql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
begin
  if jsonb_typeof(p_request -> 'lock_id') is distinct from 'string'
    or octet_length(p_request ->> 'lock_id') not between 1 and 255 then
    raise exception 'lock_id is no text of 1 to 255 bytes'
      using errcode = 'KLB06', hint = 'Draw a new ID for each refresh, such as a UUID.';
  end if;
  return p_request ->> 'lock_id';
end;
$$;

comment on function kilolock._requested_lock_id(jsonb) is
  'The lock ID by which a refresh names its run.';
revoke all on function kilolock._requested_lock_id(jsonb) from public;
