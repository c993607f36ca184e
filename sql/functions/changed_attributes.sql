-- Which attributes differ between two readings of a resource, leaf by leaf, for kl drift and kl refresh.
--
-- attribute is a path as the configuration would write it: tags["a.b"], block[0].size. An attribute that is not there is
-- one that is null. A sensitive value is a digest here, and is not shown as anything but sensitive. Where addresses or
-- statuses are given too and differ, they come as (address) and (status).
create or replace function kilolock.changed_attributes(
  p_old jsonb, p_new jsonb, p_old_address text default null, p_new_address text default null,
  p_old_status text default null, p_new_status text default null
)
  returns table (attribute text, old_value jsonb, new_value jsonb, sensitive boolean)
  language sql
  immutable
  security definer
  set search_path = pg_catalog, pg_temp
as $$
  with recursive walk as (
    select '' as path, p_old as a, p_new as b, kilolock._is_digest(p_old) or kilolock._is_digest(p_new) as is_leaf
    where p_old <> p_new
    union all
    select w.path || s.step, v.a, v.b,
           jsonb_typeof(v.a) <> jsonb_typeof(v.b) or jsonb_typeof(v.a) not in ('object', 'array')
             or kilolock._is_digest(v.a) or kilolock._is_digest(v.b)
    from walk w
    cross join lateral (
      select k.key, null::integer as n,
             case
               when k.key !~ '^[[:alpha:]_][[:alnum:]_-]*$' then '[' || kilolock._quote_key(k.key) || ']'
               when w.path = '' then k.key
               else '.' || k.key
             end as step
      from jsonb_object_keys(case when jsonb_typeof(w.a) = 'object' then w.a || w.b end) k(key)
      union all
      select null, i.n, '[' || i.n || ']'
      from generate_series(0, case when jsonb_typeof(w.a) = 'array'
        then greatest(jsonb_array_length(w.a), jsonb_array_length(w.b)) end - 1) i(n)
    ) s
    cross join lateral (
      select coalesce(case when s.n is null then w.a -> s.key else w.a -> s.n end, 'null') as a,
             coalesce(case when s.n is null then w.b -> s.key else w.b -> s.n end, 'null') as b
    ) v
    where not w.is_leaf and jsonb_typeof(w.a) = jsonb_typeof(w.b) and v.a <> v.b
  )
  select o.name, to_jsonb(o.a), to_jsonb(o.b), false
  from (values ('(address)', p_old_address, p_new_address), ('(status)', p_old_status, p_new_status)) o(name, a, b)
  where o.a <> o.b
  union all
  select w.path, case when not d.sensitive then w.a end, case when not d.sensitive then w.b end, d.sensitive
  from walk w
  cross join lateral (select kilolock._is_digest(w.a) or kilolock._is_digest(w.b) as sensitive) d
  where w.is_leaf
  order by 1
$$;

comment on function kilolock.changed_attributes(jsonb, jsonb, text, text, text, text) is
  'The attributes that differ between two readings of a resource, by path; the values of sensitive ones are null.';
revoke all on function kilolock.changed_attributes(jsonb, jsonb, text, text, text, text) from public;
grant execute on function kilolock.changed_attributes(jsonb, jsonb, text, text, text, text) to kilolock_reader, kilolock_app;
