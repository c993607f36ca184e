-- The outputs that a state had at a version.
--
-- Without settings of its own, so that the query becomes part of the caller's.
create or replace function kilolock._outputs_at(p_state_id bigint, p_version bigint)
  returns table (name text, value jsonb, type jsonb, sensitive boolean, since_version bigint)
  language sql
  stable
as $$
  select o.name, o.value, o.type, o.sensitive, o.since_version
  from kilolock.outputs o
  where o.state_id = p_state_id and o.since_version <= p_version
  union all
  select p.name, p.value, p.type, p.sensitive, p.from_version
  from kilolock.past_outputs p
  where p.state_id = p_state_id and p.until_version > p_version and p.from_version <= p_version
$$;

comment on function kilolock._outputs_at(bigint, bigint) is
  'The outputs that a state had at a version.';
revoke all on function kilolock._outputs_at(bigint, bigint) from public;
