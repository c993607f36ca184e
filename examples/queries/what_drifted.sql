-- What drifted since last night?
--
-- What a refresh found changed in the last day, and no apply has followed yet. What is gone has no attributes. Values of
-- sensitive attributes are null.
select d.state_name as state, d.address, d.change, a.attribute, a.old_value, a.new_value, a.sensitive, d.detected_at
from current_drift d
left join lateral changed_attributes(d.previous_attributes, d.current_attributes) a on d.change = 'update'
where d.detected_at > now() - interval '1 day'
order by d.state_name, d.address, a.attribute;
