-- What is different now from a day ago, in all states?
--
-- State by state and resource by resource, whole states that came or went too. What was changed and changed back in
-- between does not show.
select d.state, d.change, d.address, d.from_version, d.to_version
from diff_at(now() - interval '1 day', now()) d
order by d.state, d.address nulls first;
