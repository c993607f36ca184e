-- The same as diff_json, for many pairs of attributes: the first level is compared in the caller's own query, and diff_json is called
-- only for what differs inside.
--
-- Without settings of its own, so that the query becomes part of the caller's.
create or replace function kilolock._diff_values(p_from jsonb, p_to jsonb)
  returns table (attribute text, path jsonb, from_value jsonb, to_value jsonb, sensitive boolean)
  language sql
  immutable
as $$
  select d.attribute, d.path, d.from_value, d.to_value, d.sensitive
  from (
    select case when p_from is distinct from p_to then
      case when jsonb_typeof(p_from) = 'object' and jsonb_typeof(p_to) = 'object'
        and not kilolock._is_digest(p_from) and not kilolock._is_digest(p_to) then 'objects' else 'whole' end end as kind
  ) k
  cross join lateral (
    select j.attribute, j.path, j.from_value, j.to_value, j.sensitive
    from kilolock.diff_json(p_from, p_to) j
    where k.kind = 'whole'
    union all
    select v.attribute, v.path, v.from_value, v.to_value, v.sensitive
    from (
      select e.key, p_from -> e.key as f, e.value as t
      from jsonb_each(case when k.kind = 'objects' then p_to end) e
      where p_from -> e.key is distinct from e.value
      union all
      select e.key, e.value, null
      from jsonb_each(case when k.kind = 'objects' then p_from end) e
      where not p_to ? e.key
    ) x
    cross join lateral (
      select kilolock._json_step('', x.key) as attribute, jsonb_build_array(x.key) as path, x.f as from_value, x.t as to_value,
             kilolock._is_digest(x.f) or kilolock._is_digest(x.t) as sensitive
      where (jsonb_typeof(x.f) = jsonb_typeof(x.t) and jsonb_typeof(x.f) in ('object', 'array')) is not true
      union all
      select kilolock._json_step('', x.key) || case when j.attribute = '' or starts_with(j.attribute, '[') then '' else '.' end || j.attribute,
             jsonb_build_array(x.key) || j.path, j.from_value, j.to_value, j.sensitive
      from kilolock.diff_json(x.f, x.t) j
      where jsonb_typeof(x.f) = jsonb_typeof(x.t) and jsonb_typeof(x.f) in ('object', 'array')
    ) v
  ) d
$$;

comment on function kilolock._diff_values(jsonb, jsonb) is
  'Where two JSON values differ, for many pairs.';
revoke all on function kilolock._diff_values(jsonb, jsonb) from public;
