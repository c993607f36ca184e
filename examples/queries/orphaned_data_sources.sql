-- Which data sources does no resource use?
--
-- Each costs a read on every plan. Terraform records no dependency for an output, a provider block or a module call:
-- look there before you remove one.
select s.name as state, r.address, r.type
from states s
join resources r on r.state_version_id = s.current_version_id
where r.mode = 'data'
  and not exists (select from resource_dependencies d where d.to_resource_id = r.id)
order by s.name, r.address;
