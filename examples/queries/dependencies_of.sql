-- What does one resource depend on?
--
-- The recorded dependencies, as Terraform wrote them: it lists the indirect ones too.
with asked (state, address) as (values ('big-state', 'module.shadow_herd.random_id.leader'))
select d.address, d.type
from asked a
cross join lateral dependencies_of(a.state, a.address) d
order by d.address;
