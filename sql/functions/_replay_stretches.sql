-- Put the stretches of a state's past back where they were, after its versions were written again
--
-- Where versions were pruned, writing the others again has every change happen in the next version that was kept. An archive
-- of such a state says which version it was, which resource, and how it changed. What a resource was comes from the
-- documents all the same: from the first version that was kept of the stretch. A stretch of which none was kept is left
-- out; only reports of drift could have shown it.
--
-- Called with the states row locked and the archive's records staged.
create or replace function kilolock._replay_stretches(p_state_id bigint, p_archive_id uuid)
  returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  set work_mem = '256MB'
as $$
declare
  v_kept bigint[];
begin
  if not exists (select from kilolock.archive_records r where r.archive_id = p_archive_id and r.kind in ('S', 'O')) then
    return;
  end if;
  select coalesce(array_agg(d.version order by d.version), '{}') into v_kept
  from kilolock.version_documents d
  where d.state_id = p_state_id and d.pruned_at is null;

  with told as materialized (
    select t.*, v_kept[width_bucket(t."from" - 1, v_kept) + 1] as kept
    from kilolock.archive_records r
    cross join lateral jsonb_to_recordset(convert_from(r.data, 'UTF8')::jsonb) t(resource bigint, address text, deposed text,
      "from" bigint, until bigint, began text, ended text, created_serial numeric, changed_serial numeric,
      changed_at timestamptz)
    where r.archive_id = p_archive_id and r.kind = 'S'
  ),
  resource as materialized (
    select u.resource, nextval('kilolock.resources_id_seq') as id
    from (select distinct t.resource from told t) u
  ),
  written as (
    delete from kilolock.past_resources p
    where p.state_id = p_state_id
    returning p.*
  ),
  moved as (
    update kilolock.resources r
    set id = n.id, since_version = t."from", last_change = t.began, created_serial = t.created_serial,
        changed_serial = t.changed_serial, changed_at = t.changed_at
    from told t
    join resource n on n.resource = t.resource
    where r.state_id = p_state_id and t.until is null and r.address = t.address
      and coalesce(r.deposed_key, '') = coalesce(t.deposed, '')
  )
  insert into kilolock.past_resources (resource_id, state_id, from_version, until_version, block_id, dependency_set_id,
    began_as, ended_as, created_serial, changed_serial, changed_at, schema_version, mode, type, module_path, address, name,
    index_key, deposed_key, status, provider, sensitive_paths, attributes)
  select n.id, p_state_id, t."from", t.until, w.block_id, w.dependency_set_id, t.began, t.ended, t.created_serial,
         t.changed_serial, t.changed_at, w.schema_version, w.mode, w.type, w.module_path, w.address, w.name, w.index_key,
         w.deposed_key, w.status, w.provider, w.sensitive_paths, w.attributes
  from told t
  join resource n on n.resource = t.resource
  join (
    select p.address, p.deposed_key, p.from_version, p.until_version, p.block_id, p.dependency_set_id, p.schema_version,
           p.mode, p.type, p.module_path, p.name, p.index_key, p.status, p.provider, p.sensitive_paths, p.attributes
    from written p
    union all
    select r.address, r.deposed_key, r.since_version, null, r.block_id, r.dependency_set_id, r.schema_version,
           r.mode, r.type, r.module_path, r.name, r.index_key, r.status, r.provider, r.sensitive_paths, r.attributes
    from kilolock.resources r
    where r.state_id = p_state_id
  ) w on w.address = t.address and coalesce(w.deposed_key, '') = coalesce(t.deposed, '')
    and w.from_version <= t.kept and coalesce(w.until_version > t.kept, true)
  where t.until > t.kept;

  with told as materialized (
    select t.*, v_kept[width_bucket(t."from" - 1, v_kept) + 1] as kept
    from kilolock.archive_records r
    cross join lateral jsonb_to_recordset(convert_from(r.data, 'UTF8')::jsonb) t(name text, "from" bigint, until bigint,
      changed_serial numeric)
    where r.archive_id = p_archive_id and r.kind = 'O'
  ),
  written as (
    delete from kilolock.past_outputs p
    where p.state_id = p_state_id
    returning p.*
  ),
  moved as (
    update kilolock.outputs o
    set since_version = t."from", changed_serial = t.changed_serial
    from told t
    where o.state_id = p_state_id and t.until is null and o.name = t.name
  )
  insert into kilolock.past_outputs (state_id, from_version, until_version, name, value, type, sensitive, changed_serial)
  select p_state_id, t."from", t.until, t.name, w.value, w.type, w.sensitive, t.changed_serial
  from told t
  join (
    select p.name, p.from_version, p.until_version, p.value, p.type, p.sensitive from written p
    union all
    select o.name, o.since_version, null, o.value, o.type, o.sensitive from kilolock.outputs o where o.state_id = p_state_id
  ) w on w.name = t.name and w.from_version <= t.kept and coalesce(w.until_version > t.kept, true)
  where t.until > t.kept;
end;
$$;

comment on function kilolock._replay_stretches(bigint, uuid) is
  'Put the stretches of a states past back where they were.';
revoke all on function kilolock._replay_stretches(bigint, uuid) from public;
