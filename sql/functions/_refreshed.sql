-- What the head of a state changed that was a refresh, attribute by attribute, in the order of addresses.
--
-- The same measure as in current_drift: what has another form and the same meaning is no change.
create or replace function kilolock._refreshed(p_state kilolock.states)
  returns table (change text, address text, deposed_key text, attribute text, old_value jsonb, new_value jsonb, sensitive boolean)
  language sql
  stable
  set search_path = pg_catalog, pg_temp
as $$
  select c.change, c.address, c.deposed_key, a.attribute, a.old_value, a.new_value, coalesce(a.sensitive, false)
  from kilolock._changed_resources(p_state.id, p_state.head_version - 1, p_state.head_version) c
  left join lateral kilolock.changed_attributes(c.from_attributes, c.to_attributes, c.from_address, c.address, c.from_status,
    c.to_status) a on c.change in ('update', 'move')
  where c.change in ('create', 'delete') or a.attribute is not null
  order by c.address, c.deposed_key, a.attribute
$$;

comment on function kilolock._refreshed(kilolock.states) is
  'What the head of a state changed, attribute by attribute.';
revoke all on function kilolock._refreshed(kilolock.states) from public;
