-- A time as archives write it: ISO 8601 in UTC with microseconds, whatever the session's settings.
create or replace function kilolock._archive_time(p_time timestamptz)
  returns text
  language sql
  stable
  set search_path = pg_catalog, pg_temp
as $$
  select to_char(p_time at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;

comment on function kilolock._archive_time(timestamptz) is
  'A time as archives write it.';
revoke all on function kilolock._archive_time(timestamptz) from public;
