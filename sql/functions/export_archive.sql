-- GET /v1/archives/{name}, kl export --archive
--
-- The whole history of a state as the records of an archive, in order; kilolock/archive-format.md says what they hold.
-- A row is a record: the letter of its kind, then its content.
--
-- It is one statement, so that all of it is of one moment, and a function in SQL, so that rows come as they are made:
-- call it in a select list, because a function in FROM is worked off first. Chunks are read one by one as their turn comes.
--
-- Raises  KLN01  the state was never written
--         KLN02  no such workspace or environment
create or replace function kilolock.export_archive(p_workspace text, p_environment text, p_name text)
  returns setof bytea
  language sql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
  set work_mem = '64MB'
as $$
  with state as materialized (
    select s.* from kilolock._archived_state(p_workspace, p_environment, p_name) s
  ),
  used as materialized (
    select d.version, c.n, c.id
    from state s
    join kilolock.version_documents d on d.state_id = s.id
    cross join lateral unnest(d.chunk_ids) with ordinality c(id, n)
  ),
  -- What is in the archive in order of versions, and the number of its record: the header is number 0.
  item as materialized (
    select i.version, i.kind, i.id, row_number() over (order by i.version, i.part, i.n) as number
    from (
      (select distinct on (u.id) u.version, 0 as part, u.n, 'C' as kind, u.id
       from used u
       order by u.id, u.version, u.n)
      union all
      select d.version, 1, 0, 'V', null
      from state s
      join kilolock.version_documents d on d.state_id = s.id
      union all
      select (e.payload ->> 'version')::bigint, 2, 0, 'D', e.id
      from state s
      join kilolock.events e on e.state_id = s.id and e.kind = 'state_delete'
    ) i
  ),
  -- A version's chunks as stretches of records that follow each other: [first, how many].
  stretch as (
    select t.version, json_agg(json_build_array(t.first, t.length) order by t.n) as stretches
    from (
      select g.version, min(g.n) as n, min(g.number) as first, count(*) as length
      from (
        select b.version, b.n, b.number,
               count(*) filter (where b.is_border) over (partition by b.version order by b.n) as part
        from (
          select u.version, u.n, i.number,
                 i.number is distinct from lag(i.number) over (partition by u.version order by u.n) + 1 as is_border
          from used u
          join item i on i.id = u.id and i.kind = 'C'
        ) b
      ) g
      group by g.version, g.part
    ) t
    group by t.version
  ),
  entry as (
    select 0 as part, 0::bigint as number, 'H' as kind, null::bigint as chunk_id, json_build_object(
             'state', s.name, 'lineage', s.lineage, 'serial', s.serial, 'head_version', s.head_version,
             'deleted', s.current_version_id is null, 'managed', s.managed_count, 'size', s.head_size, 'created_at', kilolock._archive_time(s.created_at),
             'updated_at', kilolock._archive_time(s.updated_at), 'exported_at', kilolock._archive_time(clock_timestamp()),
             'versions', (select count(*) from item i where i.kind = 'V'),
             'chunks', (select count(*) from item i where i.kind = 'C'),
             'deletes', (select count(*) from item i where i.kind = 'D'),
             'tags', (select count(*) from kilolock.tags t where t.state_id = s.id),
             'refreshes', (select count(*) from kilolock.refresh_runs r where r.state_id = s.id and r.status <> 'running'),
             'events', (select count(*) from kilolock.events e where e.state_id = s.id)) as content
    from state s
    union all
    select 1, i.number, i.kind, i.id, null
    from item i
    where i.kind = 'C'
    union all
    select 1, i.number, i.kind, null, json_build_object(
             'version', d.version, 'serial', d.serial, 'lineage', d.lineage, 'terraform_version', d.terraform_version,
             'size', d.raw_size, 'md5', d.raw_md5, 'resources', d.resource_count, 'created', d.created_count,
             'updated', d.updated_count, 'deleted', d.deleted_count, 'encrypted', d.encrypted, 'source', d.source,
             'actor', d.actor, 'created_at', kilolock._archive_time(d.created_at),
             'pruned_at', kilolock._archive_time(d.pruned_at), 'chunks', t.stretches)
    from item i
    cross join state s
    join kilolock.version_documents d on d.state_id = s.id and d.version = i.version
    left join stretch t on t.version = d.version
    where i.kind = 'V'
    union all
    select 1, i.number, i.kind, null, json_build_object(
             'version', i.version, 'actor', e.actor, 'created_at', kilolock._archive_time(e.created_at))
    from item i
    join kilolock.events e on e.id = i.id
    where i.kind = 'D'
    -- Which version changed what cannot be read from documents that are gone.
    union all
    select 2, t.batch, 'S', null, json_agg(json_build_object(
             'resource', t.resource_id, 'address', t.address, 'deposed', t.deposed_key, 'from', t.from_version,
             'until', t.until_version, 'began', t.began_as, 'ended', t.ended_as, 'created_serial', t.created_serial,
             'changed_serial', t.changed_serial, 'changed_at', kilolock._archive_time(t.changed_at))
             order by t.resource_id, t.from_version)
    from (
      select h.*, (row_number() over (order by h.resource_id, h.from_version) - 1) / 500 as batch
      from state s
      cross join lateral (
        select r.id as resource_id, r.address, r.deposed_key, r.since_version as from_version, null::bigint as until_version,
               r.last_change as began_as, null as ended_as, r.created_serial, r.changed_serial, r.changed_at
        from kilolock.resources r
        where r.state_version_id = s.current_version_id
        union all
        select p.resource_id, p.address, p.deposed_key, p.from_version, p.until_version, p.began_as, p.ended_as,
               p.created_serial, p.changed_serial, p.changed_at
        from kilolock.past_resources p
        where p.state_id = s.id
      ) h
      where exists (select from kilolock.version_documents d where d.state_id = s.id and d.pruned_at is not null)
    ) t
    group by t.batch
    union all
    select 3, t.batch, 'O', null, json_agg(json_build_object(
             'name', t.name, 'from', t.from_version, 'until', t.until_version, 'changed_serial', t.changed_serial)
             order by t.name, t.from_version)
    from (
      select h.*, (row_number() over (order by h.name, h.from_version) - 1) / 500 as batch
      from state s
      cross join lateral (
        select o.name, o.since_version as from_version, null::bigint as until_version, o.changed_serial
        from kilolock.outputs o
        where o.state_id = s.id
        union all
        select p.name, p.from_version, p.until_version, p.changed_serial
        from kilolock.past_outputs p
        where p.state_id = s.id
      ) h
      where exists (select from kilolock.version_documents d where d.state_id = s.id and d.pruned_at is not null)
    ) t
    group by t.batch
    union all
    select 4, 0, 'T', null, json_agg(json_build_object(
             'name', t.name, 'version', t.version, 'actor', t.actor, 'created_at', kilolock._archive_time(t.created_at))
             order by t.name)
    from state s
    join kilolock.tags t on t.state_id = s.id
    having count(*) > 0
    union all
    select 5, 0, 'R', null, json_agg(json_build_object(
             'lock_id', r.lock_id, 'who', r.who, 'status', r.status, 'base_version', r.base_version, 'version', r.version,
             'drifted', r.drifted_count, 'message', r.message, 'started_at', kilolock._archive_time(r.started_at),
             'finished_at', kilolock._archive_time(r.finished_at)) order by r.id)
    from state s
    join kilolock.refresh_runs r on r.state_id = s.id and r.status <> 'running'
    having count(*) > 0
    union all
    select 6, e.batch, 'E', null, json_agg(json_build_object(
             'kind', e.kind, 'actor', e.actor, 'created_at', kilolock._archive_time(e.created_at), 'payload', e.payload)
             order by e.id)
    from (
      select e.*, (row_number() over (order by e.id) - 1) / 500 as batch
      from state s
      join kilolock.events e on e.state_id = s.id
    ) e
    group by e.batch
  )
  select convert_to(o.kind, 'UTF8') || case
           when o.kind = 'C' then (select convert_to(c.data, 'UTF8') from kilolock.document_chunks c where c.id = o.chunk_id)
           else convert_to(o.content::text, 'UTF8')
         end
  from (select e.* from entry e order by e.part, e.number offset 0) o
$$;

comment on function kilolock.export_archive(text, text, text) is
  'The whole history of a state, as the records of an archive.';
revoke all on function kilolock.export_archive(text, text, text) from public;
grant execute on function kilolock.export_archive(text, text, text) to kilolock_app;
