-- The root outputs that a state had at a version or a moment; a sensitive value is {"sensitive": "<salted digest>"}.
--
-- A version is a number, or text: whatever _version_of reads, which a bare literal is too.
--
-- Raises  KLN01  no such state
--         KLN03  no such version of it, or it was pruned
create or replace function kilolock.outputs_at(p_state text, p_ref text)
  returns table (name text, value jsonb, type jsonb, sensitive boolean, since_version bigint)
  language plpgsql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_version kilolock.version_documents := kilolock._named_version(p_state, p_ref);
begin
  return query select x.* from kilolock._outputs_at(v_version.state_id, v_version.version) x;
end;
$$;

comment on function kilolock.outputs_at(text, text) is
  'The outputs that a state had at a version, written in any way.';
revoke all on function kilolock.outputs_at(text, text) from public;
grant execute on function kilolock.outputs_at(text, text) to kilolock_reader, kilolock_app;

create or replace function kilolock.outputs_at(p_state text, p_version bigint)
  returns table (name text, value jsonb, type jsonb, sensitive boolean, since_version bigint)
  language plpgsql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_version kilolock.version_documents := kilolock._named_version(p_state, coalesce(p_version::text, ''));
begin
  return query select x.* from kilolock._outputs_at(v_version.state_id, v_version.version) x;
end;
$$;

comment on function kilolock.outputs_at(text, bigint) is
  'The outputs that a state had at a version.';
revoke all on function kilolock.outputs_at(text, bigint) from public;
grant execute on function kilolock.outputs_at(text, bigint) to kilolock_reader, kilolock_app;

create or replace function kilolock.outputs_at(p_state text, p_at timestamptz)
  returns table (name text, value jsonb, type jsonb, sensitive boolean, since_version bigint)
  language plpgsql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_version kilolock.version_documents := kilolock._named_version(p_state, null, coalesce(p_at, '-infinity'));
begin
  return query select x.* from kilolock._outputs_at(v_version.state_id, v_version.version) x;
end;
$$;

comment on function kilolock.outputs_at(text, timestamptz) is
  'The outputs that a state had at a moment.';
revoke all on function kilolock.outputs_at(text, timestamptz) from public;
grant execute on function kilolock.outputs_at(text, timestamptz) to kilolock_reader, kilolock_app;
