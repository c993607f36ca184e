-- What depends on one resource?
--
-- The resources that name it among their dependencies; blast_radius.sql goes on from there.
with asked (state, address) as (values ('big-state', 'random_pet.deployment_name'))
select d.address, d.type
from asked a
cross join lateral dependents_of(a.state, a.address) d
order by d.address;
