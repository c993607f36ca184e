-- GET /v1/state-engine/capabilities
--
-- What this database's state engine can do, for clients that have to know before they begin.
--
-- Answers {"protocols": {name: [version, …]}, "features": [...], "limits": {…}, "time": the clock that leases go by}.
create or replace function kilolock.read_capabilities(p_request jsonb, p_actor text)
  returns json
  language sql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
as $$
  select json_build_object(
    'protocols', json_build_object('terraform-http', json_build_array(1), 'state-engine', json_build_array(1)),
    'features', json_build_array('apply-runs', 'reservations', 'reservation-queue', 'module-prefixes', 'fencing', 'delta-commit'),
    'limits', to_json(l),
    'time', clock_timestamp())
  from kilolock._reservation_limits() l
$$;

comment on function kilolock.read_capabilities(jsonb, text) is
  'What the state engine can do.';
revoke all on function kilolock.read_capabilities(jsonb, text) from public;
grant execute on function kilolock.read_capabilities(jsonb, text) to kilolock_app;
