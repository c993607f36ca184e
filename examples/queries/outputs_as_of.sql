-- What were the outputs of a state at a version?
--
-- A version is a number, serial:N, @N (N back from the head), a tag, current or a time.
with asked (state, version) as (values ('big-state', 'current'))
select o.name, o.value, o.sensitive, o.since_version
from asked a
cross join lateral outputs_at(a.state, a.version) o
order by o.name;
