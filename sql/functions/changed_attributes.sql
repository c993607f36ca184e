-- What kl drift and kl refresh show of a resource that changed: diff_json of two readings of it, as far as it means something.
--
-- An attribute that is not there is one that is null. Of a sensitive one only that it changed: its values are null. Where
-- addresses or statuses are given too and differ, they come as (address) and (status).
create or replace function kilolock.changed_attributes(
  p_old jsonb, p_new jsonb, p_old_address text default null, p_new_address text default null,
  p_old_status text default null, p_new_status text default null
)
  returns table (attribute text, old_value jsonb, new_value jsonb, sensitive boolean)
  language sql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
  select o.name, to_jsonb(o.a), to_jsonb(o.b), false
  from (values ('(address)', p_old_address, p_new_address), ('(status)', p_old_status, p_new_status)) o(name, a, b)
  where o.a <> o.b
  union all
  select d.attribute, case when not d.sensitive then d.from_value end, case when not d.sensitive then d.to_value end, d.sensitive
  from kilolock.diff_json(jsonb_strip_nulls(p_old), jsonb_strip_nulls(p_new)) d
  order by 1
$$;

comment on function kilolock.changed_attributes(jsonb, jsonb, text, text, text, text) is
  'The attributes that differ between two readings of a resource, by path; the values of sensitive ones are null.';
revoke all on function kilolock.changed_attributes(jsonb, jsonb, text, text, text, text) from public;
grant execute on function kilolock.changed_attributes(jsonb, jsonb, text, text, text, text) to kilolock_reader, kilolock_app;
