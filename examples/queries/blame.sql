-- Who last changed each value of a resource?
with asked (state, address) as (values ('big-state', 'module.primary_herd.random_id.leader'))
select b.attribute, b.value, b.version, b.changed_at, b.actor, b.source
from asked a
cross join lateral blame(a.state, a.address) b
order by b.attribute;
