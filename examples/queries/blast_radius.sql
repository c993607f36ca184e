-- What would feel a change of one resource, directly or through others, and how far away is it?
--
-- depth counts hops from the resource; it is null for all of them, or say 2 to stop after two.
with asked (state, address, depth) as (values ('big-state', 'module.primary_herd.random_id.leader', null::int))
select b.depth, b.type, b.address
from asked a
cross join lateral blast_radius(a.state, a.address, a.depth) b
order by b.depth, b.address;
