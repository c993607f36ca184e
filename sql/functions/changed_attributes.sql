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
  select o.name, to_jsonb(o.a), to_jsonb(o.b), false
  from (values ('(address)', p_old_address, p_new_address), ('(status)', p_old_status, p_new_status)) o(name, a, b)
  where o.a <> o.b
  union all
  select j.attribute, case when not j.sensitive then coalesce(j.from_value, 'null') end,
         case when not j.sensitive then coalesce(j.to_value, 'null') end, j.sensitive
  from kilolock.diff_json(p_old, p_new) j
  where p_old is not null and p_new is not null and coalesce(j.from_value, 'null') <> coalesce(j.to_value, 'null')
  order by 1
$$;

comment on function kilolock.changed_attributes(jsonb, jsonb, text, text, text, text) is
  'The attributes that differ between two readings of a resource, by path; the values of sensitive ones are null.';
revoke all on function kilolock.changed_attributes(jsonb, jsonb, text, text, text, text) from public;
grant execute on function kilolock.changed_attributes(jsonb, jsonb, text, text, text, text) to kilolock_reader, kilolock_app;
