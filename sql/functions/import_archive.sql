-- POST /v1/archives/{name}, kl import --archive
--
-- Makes a state out of the records that stage_archive_record kept: every version is written again as it was, deletes
-- between them too, so that the rows and the past come out as they were. Then come the tags and the events; those that
-- writing again made are dropped for the original ones, and one archive_import says who imported it.
--
-- p_actor  who imports it
--
-- Answers {"state", "from", "version", "versions", "tags", "events"}.
--
-- Raises  KLC09  the state is there already
--         KLL01  it is not, but somebody holds its lock
--         KLB09  the records do not fit together
--         KLQ01, KLQ02  its head is over a quota
--         KLB03, KLN02  as _lock_state_row
-- Locks   the states row
create or replace function kilolock.import_archive(
  p_workspace text, p_environment text, p_name text, p_archive_id uuid, p_actor text
)
  returns text
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_state  kilolock.states := kilolock._lock_state_row(p_workspace, p_environment, p_name, p_create => true);
  v_before bigint := coalesce((select max(e.id) from kilolock.events e where e.state_id = v_state.id), 0);
  v_header jsonb;
  v_record record;
  v_done   record;
  v_place  text;
  v_hint   constant text := 'Nothing was imported. Its checksums are right, so it was made like that; export it again.';
begin
  if v_state.head_version > 0 then
    raise exception 'state "%" is there already', v_state.name
      using errcode = 'KLC09', hint = 'An archive becomes a new state: give another --name.';
  end if;
  perform kilolock._check_lock(v_state, null);

  begin
    for v_record in
      select r.n, r.kind, convert_from(r.data, 'UTF8')::jsonb as item
      from kilolock.archive_records r
      where r.archive_id = p_archive_id and r.kind in ('H', 'V', 'D')
      order by r.n
    loop
      v_place := 'record ' || v_record.n;
      case v_record.kind
        when 'H' then
          v_header := v_record.item;
          perform kilolock._check_quota(v_state, 0, (v_header ->> 'managed')::bigint, 0, (v_header ->> 'size')::bigint);
        when 'V' then
          perform kilolock._replay_version(v_state, p_archive_id, v_record.item);
        when 'D' then
          -- The version that was deleted may be gone, and with it those before.
          v_state.head_version := greatest(v_state.head_version, (v_record.item ->> 'version')::bigint);
          if v_state.current_version_id is not null then
            perform kilolock._delete_document(v_state, v_record.item ->> 'actor', (v_record.item ->> 'created_at')::timestamptz);
          end if;
          update kilolock.states s set head_version = v_state.head_version where s.id = v_state.id;
      end case;
      select s.* into v_state from kilolock.states s where s.id = v_state.id;
    end loop;

    v_place := 'one of the changes';
    perform kilolock._replay_stretches(v_state.id, p_archive_id);
    v_place := 'one of the events';
    delete from kilolock.events e where e.state_id = v_state.id and e.id > v_before;
    insert into kilolock.events (state_id, kind, actor, created_at, payload)
    select v_state.id, t.kind, t.actor, t.created_at, t.payload
    from kilolock.archive_records r
    cross join lateral jsonb_array_elements(convert_from(r.data, 'UTF8')::jsonb) with ordinality i(event, n)
    cross join lateral jsonb_to_record(i.event) t(kind text, actor text, created_at timestamptz, payload jsonb)
    where r.archive_id = p_archive_id and r.kind = 'E'
    order by r.n, i.n;
    v_place := 'one of the tags';
    insert into kilolock.tags (state_id, name, version, actor, created_at)
    select v_state.id, t.name, t.version, t.actor, t.created_at
    from kilolock.archive_records r
    cross join lateral jsonb_to_recordset(convert_from(r.data, 'UTF8')::jsonb)
      t(name text, version bigint, actor text, created_at timestamptz)
    where r.archive_id = p_archive_id and r.kind = 'T';
    v_place := 'one of the refreshes';
    insert into kilolock.refresh_runs (state_id, lock_id, who, status, base_version, version, drifted_count, message, started_at,
      finished_at)
    select v_state.id, t.lock_id, t.who, t.status, t.base_version, t.version, t.drifted, t.message, t.started_at, t.finished_at
    from kilolock.archive_records r
    cross join lateral jsonb_array_elements(convert_from(r.data, 'UTF8')::jsonb) with ordinality i(run, n)
    cross join lateral jsonb_to_record(i.run) t(lock_id text, who text, status text, base_version bigint, version bigint,
      drifted integer, message text, started_at timestamptz, finished_at timestamptz)
    where r.archive_id = p_archive_id and r.kind = 'R'
    order by i.n;
    v_place := 'the header';
    update kilolock.states s
    set head_version = greatest(s.head_version, t.head_version), created_at = t.created_at, updated_at = t.updated_at
    from jsonb_to_record(v_header) t(head_version bigint, created_at timestamptz, updated_at timestamptz)
    where s.id = v_state.id
    returning s.* into v_state;
  exception
    when data_exception or integrity_constraint_violation then
      raise exception '% of the archive cannot be: %', v_place, sqlerrm using errcode = 'KLB09', hint = v_hint;
    when sqlstate 'KLB01' or sqlstate 'KLB09' then
      raise exception '% of the archive: %', v_place, sqlerrm using errcode = 'KLB09', hint = v_hint;
  end;

  select (select count(*) from kilolock.version_documents d where d.state_id = v_state.id) as versions,
         (select count(*) from kilolock.tags t where t.state_id = v_state.id) as tags,
         (select count(*) from kilolock.refresh_runs r where r.state_id = v_state.id) as refreshes,
         (select count(*) from kilolock.events e where e.state_id = v_state.id and e.id > v_before) as events,
         v_state.current_version_id is null as deleted, v_state.head_version, v_state.managed_count::bigint as managed,
         v_state.head_size as size
  into v_done;
  if to_jsonb(v_done) is distinct from (
    select jsonb_object_agg(h.key, h.value) from jsonb_each(v_header) h where to_jsonb(v_done) ? h.key
  ) then
    raise exception 'the archive holds something else than its header says: %', to_jsonb(v_done)
      using errcode = 'KLB09', hint = v_hint;
  end if;

  insert into kilolock.events (state_id, kind, actor, payload)
  values (v_state.id, 'archive_import', coalesce(nullif(p_actor, ''), 'anonymous'), jsonb_build_object(
    'from', v_header ->> 'state', 'exported_at', v_header ->> 'exported_at', 'version', v_state.head_version,
    'versions', v_done.versions));
  delete from kilolock.archive_records r where r.archive_id = p_archive_id;
  return json_build_object('state', v_state.name, 'from', v_header ->> 'state', 'version', v_state.head_version,
    'versions', v_done.versions, 'tags', v_done.tags, 'events', v_done.events);
end;
$$;

comment on function kilolock.import_archive(text, text, text, uuid, text) is
  'Make a state with its whole history out of the staged records of an archive.';
revoke all on function kilolock.import_archive(text, text, text, uuid, text) from public;
grant execute on function kilolock.import_archive(text, text, text, uuid, text) to kilolock_app;
