-- kl diff: what is different between two versions of a state, value by value, either way in time.
--
-- kind is resource or output; an output's address is its name. field says what of it differs: attributes, address, status,
-- provider, schema_version or sensitive_paths, and value, type or sensitive of an output; in attributes, attribute and path
-- lead to the value (diff_json). What was created or deleted is one row with all its attributes; with p_expand a row for each.
-- Sensitive values are digests, and marked.
--
-- Raises  KLN01  no such state
--         KLN03  no such version of it, or it was pruned
create or replace function kilolock.diff_attributes(p_state text, p_from text, p_to text, p_expand boolean default false)
  returns table (kind text, change text, address text, deposed_key text, type text, from_address text, field text,
    attribute text, path jsonb, from_value jsonb, to_value jsonb, sensitive boolean)
  language plpgsql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
  set work_mem = '64MB'
as $$
#variable_conflict use_column
declare
  v_from kilolock.version_documents := kilolock._named_version(p_state, p_from);
  v_to   kilolock.version_documents := kilolock._named_version(p_state, p_to);
begin
  return query
    with changed as (
      select c.*, c.change in ('create', 'delete') as is_whole
      from kilolock._changed_resources(v_from.state_id, v_from.version, v_to.version) c
    ),
    output as (
      select coalesce(f.name, t.name) as name, case when f.name is null then 'create' when t.name is null then 'delete' else 'update' end as change,
             f.value as f_value, t.value as t_value, f.type as f_type, t.type as t_type, f.sensitive as f_sensitive, t.sensitive as t_sensitive
      from kilolock._outputs_at(v_from.state_id, v_from.version) f
      full join kilolock._outputs_at(v_to.state_id, v_to.version) t on t.name = f.name
      where (f.name, f.value, f.type, f.sensitive) is distinct from (t.name, t.value, t.type, t.sensitive)
    ),
    difference as (
      select 'resource' as kind, c.change, c.address, c.deposed_key, c.type, c.from_address, d.field, d.attribute, d.path,
             d.from_value, d.to_value, d.sensitive
      from changed c
      cross join lateral (
        select 'attributes' as field, '' as attribute, '[]'::jsonb as path, c.from_attributes as from_value,
               c.to_attributes as to_value, false as sensitive
        where c.is_whole and not p_expand
        union all
        select 'attributes', j.attribute, j.path, j.from_value, j.to_value, j.sensitive
        from kilolock._diff_values(
          case when c.change = 'create' then '{}' else c.from_attributes end,
          case when c.change = 'delete' then '{}' else c.to_attributes end) j
        where not c.is_whole or p_expand
        union all
        select x.field, '', '[]', to_jsonb(x.f), to_jsonb(x.t), false
        from (values ('address', c.from_address, c.address), ('status', c.from_status, c.to_status),
          ('provider', c.from_provider, c.to_provider), ('schema_version', c.from_schema_version::text, c.to_schema_version::text),
          ('sensitive_paths', c.from_sensitive_paths::text, c.to_sensitive_paths::text)) x(field, f, t)
        where not c.is_whole and x.f is distinct from x.t
      ) d
      union all
      select 'output', o.change, o.name, null, 'output', case when o.change <> 'create' then o.name end, d.field, d.attribute, d.path,
             d.from_value, d.to_value, d.sensitive
      from output o
      cross join lateral (
        select 'value' as field, '' as attribute, '[]'::jsonb as path, o.f_value as from_value, o.t_value as to_value,
               coalesce(o.f_sensitive, o.t_sensitive) or coalesce(o.t_sensitive, o.f_sensitive) as sensitive
        where o.change <> 'update'
        union all
        select 'value', j.attribute, j.path, j.from_value, j.to_value, j.sensitive or o.f_sensitive or o.t_sensitive
        from kilolock.diff_json(o.f_value, o.t_value) j
        where o.change = 'update'
        union all
        select x.field, '', '[]', x.f, x.t, false
        from (values ('type', o.f_type, o.t_type), ('sensitive', to_jsonb(o.f_sensitive), to_jsonb(o.t_sensitive))) x(field, f, t)
        where o.change = 'update' and x.f is distinct from x.t
      ) d
    )
    select d.kind, d.change, d.address, d.deposed_key, d.type, d.from_address, d.field, d.attribute, d.path, d.from_value,
           d.to_value, d.sensitive
    from difference d
    order by d.kind desc, d.address, d.deposed_key nulls first, d.field = 'attributes', d.field, d.attribute;
end;
$$;

comment on function kilolock.diff_attributes(text, text, text, boolean) is
  'What is different between two versions of a state, value by value, outputs too.';
revoke all on function kilolock.diff_attributes(text, text, text, boolean) from public;
grant execute on function kilolock.diff_attributes(text, text, text, boolean) to kilolock_reader, kilolock_app;
