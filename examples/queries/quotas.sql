-- Which limits are near or passed?
--
-- The fullest first: how much of its hard limit, or else of its soft one, each scope uses.
select u.scope, coalesce(u.state, u.environment, u.workspace) as name, u.measure, u.used, u.soft_limit, u.hard_limit,
       round(100.0 * u.used / nullif(coalesce(u.hard_limit, u.soft_limit), 0)) as percent, u.status
from quota_usage u
where coalesce(u.hard_limit, u.soft_limit) is not null
order by percent desc nulls first, u.scope, name;
