-- GET /readyz
--
-- Managed servers make a database read only when their disk is full, so a primary may refuse writes too.
--
-- Raises  57P03  this server is a standby or the database is read only, so that it cannot take writes
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
  if current_setting('transaction_read_only')::boolean then
    raise exception 'the database is read only'
      using errcode = 'cannot_connect_now', hint = 'See default_transaction_read_only; a server whose disk is full may have set it.';
  end if;
  perform 1 from kilolock.environments e limit 1;
end;
$$;

comment on function kilolock.check_ready() is
  'Fails unless this database can take writes.';
revoke all on function kilolock.check_ready() from public;
grant execute on function kilolock.check_ready() to kilolock_app;
