-- What the head of a state changed that was a refresh, attribute by attribute, in the order of addresses.
--
-- The same measure as in current_drift: what has another form and the same meaning is no change.
create or replace function kilolock._refreshed(p_state kilolock.states)
  returns table (change text, address text, deposed_key text, attribute text, old_value jsonb, new_value jsonb, sensitive boolean)
  language sql
  stable
  set search_path = pg_catalog, pg_temp
as $$
  with touched as (
    select case when p.address <> r.address then 'move' else 'update' end as change, r.address, r.deposed_key, p.address as old_address,
           p.status as old_status, r.status as new_status, p.attributes as old_attributes, r.attributes as new_attributes
    from kilolock.past_resources p
    join kilolock.resources r on r.id = p.resource_id
    where p.state_id = p_state.id and p.until_version = p_state.head_version and p.ended_as in ('update', 'move')
    union all
    select 'create', r.address, r.deposed_key, null, null, null, null, null
    from kilolock.version_documents d
    join kilolock.resources r on r.state_version_id = d.id and r.since_version = d.version and r.last_change = 'create'
    where d.state_id = p_state.id and d.version = p_state.head_version and d.created_count > 0
    union all
    select 'delete', p.address, p.deposed_key, null, null, null, null, null
    from kilolock.past_resources p
    where p.state_id = p_state.id and p.until_version = p_state.head_version and p.ended_as = 'delete'
  )
  select t.change, t.address, t.deposed_key, a.attribute, a.old_value, a.new_value, coalesce(a.sensitive, false)
  from touched t
  left join lateral kilolock.changed_attributes(t.old_attributes, t.new_attributes, t.old_address, t.address, t.old_status,
    t.new_status) a on true
  where t.change in ('create', 'delete') or a.attribute is not null
  order by t.address, t.deposed_key, a.attribute
$$;

comment on function kilolock._refreshed(kilolock.states) is
  'What the head of a state changed, attribute by attribute.';
revoke all on function kilolock._refreshed(kilolock.states) from public;
