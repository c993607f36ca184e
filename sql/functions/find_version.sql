-- The version of a state that a reference means, for psql users: a number, serial:N, @N, a tag, current or a time.
--
-- Raises  KLN01  no such state
--         KLN03  no such version of it, or it was pruned
create or replace function kilolock.find_version(p_state text, p_ref text)
  returns table (state_id bigint, version bigint, serial numeric, created_at timestamptz, source text, actor text,
    resource_count integer, raw_size bigint)
  language sql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
as $$
  select d.state_id, d.version, d.serial, d.created_at, d.source, d.actor, d.resource_count, d.raw_size
  from kilolock._named_version(p_state, p_ref) d
$$;

comment on function kilolock.find_version(text, text) is
  'The version of a state that a reference means: a number, serial:N, @N, a tag, current or a time.';
revoke all on function kilolock.find_version(text, text) from public;
grant execute on function kilolock.find_version(text, text) to kilolock_reader, kilolock_app;
