-- kl history --address: the life of the resource at an address, value by value, oldest first.
--
-- Follows whatever had the address to the addresses that it had before and after. field, attribute, path and the values are
-- as in diff_attributes; what was created or deleted is one row with all its attributes. Where versions were pruned, a change is
-- told against what was kept of the resource before it.
--
-- Raises  KLN01  no such state
--         KLN04  no resource ever had this address there
create or replace function kilolock.resource_changes(p_state text, p_address text)
  returns table (version bigint, created_at timestamptz, actor text, source text, change text, address text, deposed_key text,
    field text, attribute text, path jsonb, from_value jsonb, to_value jsonb, sensitive boolean, resource_id bigint)
  language plpgsql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_state_id bigint;
  v_ids      bigint[];
begin
  select s.id into v_state_id from kilolock.states s where s.name = p_state order by s.environment_id limit 1;
  if not found then
    raise exception 'state "%" does not exist', p_state using errcode = 'KLN01', hint = 'kl list shows the states there are.';
  end if;
  select array_agg(x.id) into v_ids
  from (
    select r.id from kilolock.resources r where r.state_id = v_state_id and r.address = p_address
    union
    select p.resource_id from kilolock.past_resources p where p.state_id = v_state_id and p.address = p_address
  ) x;
  if v_ids is null then
    raise exception 'state "%" never had a resource "%"', p_state, p_address
      using errcode = 'KLN04', hint = 'Addresses are written as terraform state list prints them, keys in double quotes.';
  end if;

  return query
    with stretch as (
      select r.id, r.since_version as from_version, r.last_change as began_as, null::text as ended_as, null::bigint as until_version,
             r.address, r.deposed_key, r.status, r.provider, r.schema_version, r.sensitive_paths, r.attributes
      from kilolock.resources r
      where r.id = any (v_ids) and r.state_id = v_state_id
      union all
      select p.resource_id, p.from_version, p.began_as, p.ended_as, p.until_version,
             p.address, p.deposed_key, p.status, p.provider, p.schema_version, p.sensitive_paths, p.attributes
      from kilolock.past_resources p
      where p.resource_id = any (v_ids) and p.state_id = v_state_id
    ),
    step as (
      select s.*, lag(s.from_version) over w is not null and s.began_as <> 'create' as has_before,
             lag(s.address) over w as b_address, lag(s.status) over w as b_status, lag(s.provider) over w as b_provider,
             lag(s.schema_version) over w as b_schema_version, lag(s.sensitive_paths) over w as b_sensitive_paths,
             lag(s.attributes) over w as b_attributes
      from stretch s
      window w as (partition by s.id order by s.from_version)
    ),
    change as (
      select s.id, s.from_version as version, false as is_end, s.began_as as change, s.address, s.deposed_key,
             d.field, d.attribute, d.path, d.from_value, d.to_value, d.sensitive
      from step s
      left join lateral (
        select 'attributes' as field, '' as attribute, '[]'::jsonb as path, null::jsonb as from_value, s.attributes as to_value,
               false as sensitive
        where s.began_as = 'create'
        union all
        select 'attributes', j.attribute, j.path, j.from_value, j.to_value, j.sensitive
        from kilolock.diff_json(s.b_attributes, s.attributes) j
        where s.has_before
        union all
        select x.field, '', '[]', to_jsonb(x.f), to_jsonb(x.t), false
        from (values ('address', s.b_address, s.address), ('status', s.b_status, s.status), ('provider', s.b_provider, s.provider),
          ('schema_version', s.b_schema_version::text, s.schema_version::text),
          ('sensitive_paths', s.b_sensitive_paths::text, s.sensitive_paths::text)) x(field, f, t)
        where s.has_before and x.f is distinct from x.t
      ) d on true
      union all
      select s.id, s.until_version, true, 'delete', s.address, s.deposed_key, 'attributes', '', '[]', s.attributes, null, false
      from stretch s
      where s.ended_as = 'delete'
    )
    select c.version, coalesce(e.created_at, d.created_at), coalesce(e.actor, d.actor, 'anonymous'),
           case when e.id is not null then 'delete' else coalesce(d.source, 'apply') end, c.change, c.address, c.deposed_key,
           c.field, c.attribute, c.path, c.from_value, c.to_value, c.sensitive, c.id
    from change c
    left join lateral (
      -- A resource that went with its state ends in a version that is not written yet, or was written by somebody else.
      select v.id, v.created_at, v.actor
      from kilolock.events v
      where c.is_end and v.state_id = v_state_id and v.kind = 'state_delete' and (v.payload ->> 'version')::bigint = c.version - 1
      limit 1
    ) e on true
    left join kilolock.version_documents d on d.state_id = v_state_id and d.version = c.version
    order by c.version, c.is_end desc, c.id, c.field = 'attributes', c.field, c.attribute;
end;
$$;

comment on function kilolock.resource_changes(text, text) is
  'The life of the resource at an address, value by value.';
revoke all on function kilolock.resource_changes(text, text) from public;
grant execute on function kilolock.resource_changes(text, text) to kilolock_reader, kilolock_app;
