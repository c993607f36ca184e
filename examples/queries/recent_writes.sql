-- Who wrote what lately?
--
-- Every write is a version, the interim ones of a long apply too. The last 50 over all states.
select v.created_at, s.name as state, v.version, v.serial, v.source, v.actor, v.resource_count, v.raw_size
from state_versions v
join states s on s.id = v.state_id
order by v.created_at desc, v.id desc
limit 50;
