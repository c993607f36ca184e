-- What happened to one resource, from its creation on?
--
-- It is followed through moves, and beyond its deletion if it was made again.
with asked (state, address) as (values ('big-state', 'module.primary_herd.random_id.leader'))
select c.version, c.created_at, c.actor, c.change, c.address, c.field, c.attribute, c.from_value, c.to_value
from asked a
cross join lateral resource_changes(a.state, a.address) c
order by c.version, c.attribute;
