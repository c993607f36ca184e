-- Make the outputs of a state match its new document; an output that stays as it is is not touched, and what one was goes
-- to past_outputs.
--
-- Raises  KLX01  as _write_rows
drop function if exists kilolock._write_outputs(bigint, numeric, text, json, boolean);
create or replace function kilolock._write_outputs(
  p_state_id bigint, p_version bigint, p_serial numeric, p_salt text, p_document json, p_has_references boolean
)
  returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_outputs json;
begin
  select case when json_typeof(d.outputs) = 'object' then d.outputs else '{}' end into v_outputs
  from json_to_record(p_document) d(outputs json);
  if p_has_references and strpos(v_outputs::text, '"kl' || substr(p_salt, 1, 8)) > 0 then
    raise exception 'an output holds a reference' using errcode = 'KLX01';
  end if;

  with output as materialized (
    select distinct on (e.key) e.key as name,
           case when v.sensitive then kilolock._digest(v.value, p_salt) else v.value end as value, v.type, v.sensitive
    from json_each(v_outputs) with ordinality e(key, value, n)
    cross join lateral (select e.value::jsonb as output) o
    cross join lateral (
      select o.output -> 'value' as value, o.output -> 'type' as type,
             coalesce(o.output -> 'sensitive' = 'true', false) as sensitive
    ) v
    order by e.key, e.n desc
  ),
  gone as materialized (
    select o.*, n.name is null as removed
    from kilolock.outputs o
    left join output n on n.name = o.name
    where o.state_id = p_state_id
      and (n.name is null or (o.value, o.type, o.sensitive) is distinct from (n.value, n.type, n.sensitive))
  ),
  past as (
    insert into kilolock.past_outputs (state_id, from_version, until_version, name, value, type, sensitive, changed_serial)
    select g.state_id, g.since_version, p_version, g.name, g.value, g.type, g.sensitive, g.changed_serial
    from gone g
  ),
  removed as (
    delete from kilolock.outputs o
    using gone g
    where o.state_id = p_state_id and o.name = g.name and g.removed
  ),
  rewritten as (
    update kilolock.outputs o
    set value = n.value, type = n.type, sensitive = n.sensitive, changed_serial = p_serial, since_version = p_version
    from gone g
    join output n on n.name = g.name
    where o.state_id = p_state_id and o.name = g.name
  )
  insert into kilolock.outputs (state_id, name, value, type, sensitive, changed_serial, since_version)
  select p_state_id, n.name, n.value, n.type, n.sensitive, p_serial, p_version
  from output n
  where not exists (select from kilolock.outputs o where o.state_id = p_state_id and o.name = n.name);
end;
$$;

comment on function kilolock._write_outputs(bigint, bigint, numeric, text, json, boolean) is
  'Make the outputs of a state match a parsed document.';
revoke all on function kilolock._write_outputs(bigint, bigint, numeric, text, json, boolean) from public;
