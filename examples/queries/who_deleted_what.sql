-- Who deleted what lately, and in which version of its state?
--
-- asked narrows it down: a type such as aws_s3_bucket, or null for all. id is what the provider called it. Where a whole
-- state was deleted the source is delete.
with asked (type, days) as (values (null::text, 7))
select h.changed_at, h.actor, h.source, s.name as state, h.from_version as version, h.address, h.attributes ->> 'id' as id
from asked a
join resource_history h on h.change = 'delete' and h.changed_at > now() - a.days * interval '1 day' and h.type = coalesce(a.type, h.type)
join states s on s.id = h.state_id
order by h.changed_at desc, s.name, h.address;
