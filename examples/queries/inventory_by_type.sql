-- What is in a state, by resource type?
--
-- Name the state in the first line; without the join to it the answer covers every state.
with asked (state) as (values ('big-state'))
select r.type, count(*) as instances
from asked a
join states s on s.name = a.state
join resources r on r.state_version_id = s.current_version_id
group by r.type
order by instances desc, r.type;
