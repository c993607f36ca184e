-- GET /readyz
--
-- Raises  57P03  this server is a standby, which cannot take writes
create or replace function kilolock.check_ready()
  returns void
  language plpgsql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
as $$
begin
  if pg_is_in_recovery() then
    raise exception 'the database is a standby and takes no writes'
      using errcode = 'cannot_connect_now', hint = 'Point KL_DATABASE_URL at the primary.';
  end if;
  perform 1 from kilolock.environments e limit 1;
end;
$$;

comment on function kilolock.check_ready() is
  'Fails unless this database can take writes.';
revoke all on function kilolock.check_ready() from public;
grant execute on function kilolock.check_ready() to kilolock_app;
