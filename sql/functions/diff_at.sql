-- What is different between two moments, over all states, resource by resource, either way in time.
--
-- A state that came in between has a row state_create and rows of all its resources, one that went state_delete. Where what
-- was the head then has been pruned, the state has a single row pruned.
create or replace function kilolock.diff_at(p_from timestamptz, p_to timestamptz)
  returns table (environment text, state text, change text, address text, deposed_key text, type text, from_address text,
    from_attributes jsonb, to_attributes jsonb, resource_id bigint, from_version bigint, to_version bigint)
  language sql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
as $$
  with state as materialized (
    select e.public_id as environment, s.id, s.name, f.version as from_version, t.version as to_version,
           coalesce(f.pruned, false) or coalesce(t.pruned, false) as pruned
    from kilolock.states s
    join kilolock.environments e on e.id = s.environment_id
    left join lateral (
      select d.version, d.pruned_at is not null as pruned, kilolock._deleted_at(s.id, d.version) as deleted_at
      from kilolock.version_documents d
      where d.state_id = s.id and d.created_at <= p_from
      order by d.version desc
      limit 1
    ) f on f.deleted_at > p_from or f.deleted_at is null
    left join lateral (
      select d.version, d.pruned_at is not null as pruned, kilolock._deleted_at(s.id, d.version) as deleted_at
      from kilolock.version_documents d
      where d.state_id = s.id and d.created_at <= p_to
      order by d.version desc
      limit 1
    ) t on t.deleted_at > p_to or t.deleted_at is null
    where f.version is distinct from t.version
  )
  select s.environment, s.name, d.change, d.address, d.deposed_key, d.type, d.from_address, d.from_attributes, d.to_attributes,
         d.resource_id, s.from_version, s.to_version
  from state s
  cross join lateral (
    select case when s.pruned then 'pruned' when s.from_version is null then 'state_create' else 'state_delete' end as change,
           null::text as address, null::text as deposed_key, null::text as type, null::text as from_address,
           null::jsonb as from_attributes, null::jsonb as to_attributes, null::bigint as resource_id
    where s.pruned or s.from_version is null or s.to_version is null
    union all
    select c.change, c.address, c.deposed_key, c.type, c.from_address, c.from_attributes, c.to_attributes, c.resource_id
    from kilolock._changed_resources(s.id, coalesce(s.from_version, 0), coalesce(s.to_version, 0)) c
    where not s.pruned
  ) d
  order by s.environment, s.name, d.address nulls first, d.deposed_key nulls first
$$;

comment on function kilolock.diff_at(timestamptz, timestamptz) is
  'What is different between two moments, over all states, resource by resource.';
revoke all on function kilolock.diff_at(timestamptz, timestamptz) from public;
grant execute on function kilolock.diff_at(timestamptz, timestamptz) to kilolock_reader, kilolock_app;
