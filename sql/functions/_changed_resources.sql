-- The resources that differ between two versions of a state, each as it was at both; version 0 has none.
--
-- A row that spans both versions is the same at both, so only rows that begin or end between them are looked at: past rows
-- by the index on until_version, live rows by their since_version.
--
-- Without settings of its own, so that the query becomes part of the caller's.
create or replace function kilolock._changed_resources(p_state_id bigint, p_from bigint, p_to bigint)
  returns table (resource_id bigint, change text, address text, deposed_key text, type text, from_address text,
    from_attributes jsonb, to_attributes jsonb, from_status text, to_status text, from_provider text, to_provider text,
    from_schema_version bigint, to_schema_version bigint, from_sensitive_paths jsonb, to_sensitive_paths jsonb)
  language sql
  stable
as $$
  with border (low, high) as (
    select least(p_from, p_to), greatest(p_from, p_to)
  ),
  earlier as (
    select p.resource_id, p.address, p.deposed_key, p.type, p.attributes, p.status, p.provider, p.schema_version, p.sensitive_paths
    from border b
    join kilolock.past_resources p
      on p.state_id = p_state_id and p.until_version > b.low and p.until_version <= b.high and p.from_version <= b.low
  ),
  later as (
    select r.id as resource_id, r.address, r.deposed_key, r.type, r.attributes, r.status, r.provider, r.schema_version, r.sensitive_paths
    from border b
    join kilolock.states s on s.id = p_state_id
    join kilolock.resources r
      on r.state_version_id = s.current_version_id and r.since_version > b.low and r.since_version <= b.high
    union all
    select p.resource_id, p.address, p.deposed_key, p.type, p.attributes, p.status, p.provider, p.schema_version, p.sensitive_paths
    from border b
    join kilolock.past_resources p
      on p.state_id = p_state_id and p.until_version > b.high and p.from_version > b.low and p.from_version <= b.high
  ),
  f as (
    select e.* from earlier e where p_from <= p_to
    union all
    select l.* from later l where p_from > p_to
  ),
  t as (
    select l.* from later l where p_from <= p_to
    union all
    select e.* from earlier e where p_from > p_to
  )
  select coalesce(t.resource_id, f.resource_id),
         case
           when f.resource_id is null then 'create'
           when t.resource_id is null then 'delete'
           when f.address <> t.address then 'move'
           else 'update'
         end,
         coalesce(t.address, f.address), coalesce(t.deposed_key, f.deposed_key), coalesce(t.type, f.type), f.address,
         f.attributes, t.attributes, f.status, t.status, f.provider, t.provider, f.schema_version, t.schema_version,
         f.sensitive_paths, t.sensitive_paths
  from f
  full join t on t.resource_id = f.resource_id
  where (f.address, f.attributes, f.schema_version, f.status, f.provider, f.sensitive_paths)
    is distinct from (t.address, t.attributes, t.schema_version, t.status, t.provider, t.sensitive_paths)
$$;

comment on function kilolock._changed_resources(bigint, bigint, bigint) is
  'The resources that differ between two versions of a state.';
revoke all on function kilolock._changed_resources(bigint, bigint, bigint) from public;
