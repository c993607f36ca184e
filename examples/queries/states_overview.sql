-- Which states are there, how large are they, and who holds their locks?
select o.environment, o.name, o.version, o.serial, o.resources, pg_size_pretty(o.size) as size, o.updated_at,
       o.locked_by, o.locked_since
from state_overview o
order by o.environment, o.name;
