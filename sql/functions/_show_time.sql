-- A time for people, in UTC.
create or replace function kilolock._show_time(p_time timestamptz)
  returns text
  language sql
  stable
  set search_path = pg_catalog, pg_temp
as $$
  select to_char(p_time at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS UTC')
$$;

comment on function kilolock._show_time(timestamptz) is
  'A time for people, in UTC.';
revoke all on function kilolock._show_time(timestamptz) from public;
