-- A time as somebody wrote it, without a zone in the session's TimeZone; null where it is none.
create or replace function kilolock._read_time(p_text text)
  returns timestamptz
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
begin
  return p_text::timestamptz;
exception when data_exception then
  return null;
end;
$$;

comment on function kilolock._read_time(text) is
  'A text as a time, or null.';
revoke all on function kilolock._read_time(text) from public;
