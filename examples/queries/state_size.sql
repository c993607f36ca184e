-- How large is each state, and what does all of its history come to?
--
-- documents_written is what the versions would take as files. They are stored in pieces that versions share, so on disk
-- it is far less: the last column is the whole database, every state and index in it.
select s.name as state, pg_size_pretty(h.raw_size) as document, s.resource_count as resources,
       count(v.version) as versions, pg_size_pretty(sum(v.raw_size)) as documents_written,
       pg_size_pretty(pg_database_size(current_database())) as whole_database
from states s
join state_versions h on h.id = s.current_version_id
join state_versions v on v.state_id = s.id
group by s.id, s.name, h.raw_size, s.resource_count
order by h.raw_size desc, s.name;
