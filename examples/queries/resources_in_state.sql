-- Which resources does a state hold, and since which serial is each as it is?
with asked (state) as (values ('big-state'))
select r.address, r.mode, r.status, r.deposed_key, r.created_serial, r.changed_serial, r.changed_at
from asked a
join states s on s.name = a.state
join resources r on r.state_version_id = s.current_version_id
order by r.address, r.deposed_key nulls first;
