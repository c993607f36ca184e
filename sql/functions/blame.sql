-- Who last changed each value of a live resource.
--
-- One row for each of the deepest values of its attributes: the version in which it became what it is, and who wrote that.
-- A resource that was deleted and made again has nothing from before. A change made in a version that was pruned counts
-- to the next version kept.
--
-- Raises  KLN01  no such state, or deleted
--         KLN04  no such address in it
create or replace function kilolock.blame(p_state text, p_address text)
  returns table (attribute text, value jsonb, version bigint, changed_at timestamptz, actor text, source text, sensitive boolean, path jsonb)
  language sql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
as $$
  with recursive live as materialized (
    select r.id, r.state_id, r.since_version, r.last_change, r.attributes
    from kilolock._live_resource(p_state, p_address) r
  ),
  stretch as materialized (
    select l.since_version as version, l.last_change as began_as, l.attributes
    from live l
    union all
    select p.from_version, p.began_as, p.attributes
    from live l
    join kilolock.past_resources p on p.resource_id = l.id and p.state_id = l.state_id
  ),
  life as materialized (
    select s.version, s.attributes, lag(s.attributes) over (order by s.version) as before
    from stretch s
    where s.version >= coalesce((select max(c.version) from stretch c where c.began_as = 'create'), 0)
  ),
  change as materialized (
    select l.version, array(select x.value #>> '{}' from jsonb_array_elements(j.path) with ordinality x(value, n) order by x.n) as path
    from life l
    cross join lateral kilolock.diff_json(l.before, l.attributes) j
    where l.version > (select min(m.version) from life m)
  ),
  step (attribute, path, keys, value) as (
    select '', '[]'::jsonb, '{}'::text[], l.attributes from live l
    union all
    select e.attribute, s.path || jsonb_build_array(e.key), s.keys || (e.key #>> '{}'), e.value
    from step s
    cross join lateral (
      select kilolock._json_step(s.attribute, k.key) as attribute, to_jsonb(k.key) as key, k.value
      from jsonb_each(case when jsonb_typeof(s.value) = 'object' and not kilolock._is_digest(s.value) then s.value end) k
      union all
      select format('%s[%s]', s.attribute, k.n - 1), to_jsonb(k.n - 1), k.value
      from jsonb_array_elements(case when jsonb_typeof(s.value) = 'array' then s.value end) with ordinality k(value, n)
    ) e
  )
  select s.attribute, s.value, v.version, d.created_at, coalesce(d.actor, 'anonymous'), coalesce(d.source, 'apply'),
         kilolock._is_digest(s.value), s.path
  from step s
  cross join live l
  cross join lateral (
    select coalesce(max(c.version), (select min(m.version) from life m)) as version
    from change c
    where s.keys[1:cardinality(c.path)] = c.path or c.path[1:cardinality(s.keys)] = s.keys
  ) v
  left join kilolock.version_documents d on d.state_id = l.state_id and d.version = v.version
  where jsonb_typeof(s.value) not in ('object', 'array') or s.value in ('{}', '[]') or kilolock._is_digest(s.value)
  order by s.attribute collate "C"
$$;

comment on function kilolock.blame(text, text) is
  'Who last changed each value of a live resource, and in which version.';
revoke all on function kilolock.blame(text, text) from public;
grant execute on function kilolock.blame(text, text) to kilolock_reader, kilolock_app;
