-- What did the last write of a state change, value by value?
--
-- Any two versions can be compared. Sensitive values are digests: that one changed is seen, what it is is not.
with asked (state, before, after) as (values ('big-state', '@1', 'current'))
select d.change, d.kind, d.address, d.field, d.attribute, d.from_value, d.to_value
from asked a
cross join lateral diff_attributes(a.state, a.before, a.after) d
order by d.kind desc, d.address, d.attribute;
