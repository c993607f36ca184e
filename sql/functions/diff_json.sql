-- Where two JSON values differ, down to the deepest values that do.
--
-- Objects are compared key by key, arrays place by place. attribute is the place as people write it, tags.Name or
-- ingress[0].port; path is the same as a JSON array of keys and places. A side that has nothing there is null, which JSON's null is
-- not. Digests of sensitive values are compared as a whole.
create or replace function kilolock.diff_json(p_from jsonb, p_to jsonb)
  returns table (attribute text, path jsonb, from_value jsonb, to_value jsonb, sensitive boolean)
  language sql
  immutable
  security definer
  set search_path = pg_catalog, pg_temp
as $$
  with recursive step (attribute, path, f, t, kind) as (
    select '', '[]'::jsonb, p_from, p_to, k.kind
    from (
      select case when jsonb_typeof(p_from) = jsonb_typeof(p_to) and jsonb_typeof(p_from) in ('object', 'array')
        and not kilolock._is_digest(p_from) and not kilolock._is_digest(p_to) then jsonb_typeof(p_from) end as kind
    ) k
    where p_from is distinct from p_to
    union all
    select e.attribute, s.path || jsonb_build_array(e.key), e.f, e.t,
           case when jsonb_typeof(e.f) = jsonb_typeof(e.t) and jsonb_typeof(e.f) in ('object', 'array')
             and not kilolock._is_digest(e.f) and not kilolock._is_digest(e.t) then jsonb_typeof(e.f) end
    from step s
    cross join lateral (
      select kilolock._json_step(s.attribute, n.key) as attribute, to_jsonb(n.key) as key, s.f -> n.key as f, s.t -> n.key as t
      from (
        select k.key from jsonb_object_keys(case when s.kind = 'object' then s.f end) k(key)
        union
        select k.key from jsonb_object_keys(case when s.kind = 'object' then s.t end) k(key)
      ) n
      union all
      select format('%s[%s]', s.attribute, n.i), to_jsonb(n.i), s.f -> n.i, s.t -> n.i
      from generate_series(0, case when s.kind = 'array'
        then greatest(jsonb_array_length(s.f), jsonb_array_length(s.t)) - 1 else -1 end) n(i)
    ) e
    where s.kind is not null and e.f is distinct from e.t
  )
  select s.attribute, s.path, s.f, s.t, kilolock._is_digest(s.f) or kilolock._is_digest(s.t)
  from step s
  where s.kind is null
$$;

comment on function kilolock.diff_json(jsonb, jsonb) is
  'Where two JSON values differ, one row for each of the deepest values that do.';
revoke all on function kilolock.diff_json(jsonb, jsonb) from public;
grant execute on function kilolock.diff_json(jsonb, jsonb) to kilolock_reader, kilolock_app;
