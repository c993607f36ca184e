-- Which modules make up a state, and how large is each?
--
-- An instance of a module with count or for_each counts by itself: module.site["a"] beside module.site["b"].
with asked (state) as (values ('big-state'))
select coalesce(nullif(r.module_path, ''), '(root)') as module, count(*) as resources
from asked a
join states s on s.name = a.state
join resources r on r.state_version_id = s.current_version_id
group by r.module_path
order by resources desc, module;
