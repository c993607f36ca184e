-- HEAD /v1/states/{name}
--
-- Raises  KLN01  never written or deleted
create or replace function kilolock.head_state(p_workspace text, p_environment text, p_name text)
  returns table (version bigint, serial numeric, raw_size bigint, raw_md5 text)
  language sql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
as $$
  select d.version, d.serial, d.raw_size, d.raw_md5
  from kilolock._find_version(p_workspace, p_environment, p_name, null) d
$$;

comment on function kilolock.head_state(text, text, text) is
  'Version, serial, size and MD5 of a head without its document.';
revoke all on function kilolock.head_state(text, text, text) from public;
grant execute on function kilolock.head_state(text, text, text) to kilolock_app;
