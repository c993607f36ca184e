-- What did a state hold at a moment?
--
-- The moment may be any time since the state was first written, such as timestamptz '2026-11-30 10:00'.
with asked (state, moment) as (values ('big-state', now()))
select r.address, r.type, r.status, r.since_version, r.attributes
from asked a
cross join lateral resources_at(a.state, a.moment) r
order by r.address;
