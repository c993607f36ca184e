-- Write a version as an archive has it: number, time, source and actor are those of the original.
--
-- Called with the states row locked and the archive's records staged. Of a pruned version only what is known about it
-- is written. The counts are the archive's, because what a version changed is counted against the one before it, which
-- may have been pruned since.
--
-- Raises  KLB09  the document is not the one that the archive describes
--         KLB01  it is no state (_write_document)
create or replace function kilolock._replay_version(p_state kilolock.states, p_archive_id uuid, p_version jsonb)
  returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_item record;
  v_body bytea;
begin
  select t.* into v_item
  from jsonb_to_record(p_version) t(version bigint, serial numeric, lineage text, terraform_version text, size bigint,
    md5 text, resources integer, created integer, updated integer, deleted integer, encrypted boolean, source text,
    actor text, created_at timestamptz, pruned_at timestamptz, chunks jsonb);
  if v_item.version is null or v_item.version <= p_state.head_version then
    raise exception 'version % follows version %', v_item.version, p_state.head_version using errcode = 'KLB09';
  end if;

  if v_item.pruned_at is not null then
    insert into kilolock.version_documents (id, state_id, version, serial, lineage, terraform_version, raw_size, raw_md5,
      resource_count, created_count, updated_count, deleted_count, encrypted, source, actor, created_at, chunk_ids, pruned_at)
    values (nextval(pg_get_serial_sequence('kilolock.version_documents', 'id')), p_state.id, v_item.version, v_item.serial,
      v_item.lineage, v_item.terraform_version, v_item.size, v_item.md5, v_item.resources, v_item.created, v_item.updated,
      v_item.deleted, v_item.encrypted, v_item.source, v_item.actor, v_item.created_at, '{}', v_item.pruned_at);
    update kilolock.states s
    set head_version = v_item.version, serial = v_item.serial, lineage = v_item.lineage,
        terraform_version = v_item.terraform_version
    where s.id = p_state.id;
    return;
  end if;

  select string_agg(r.data, '' order by i.n, r.n) into v_body
  from jsonb_array_elements(v_item.chunks) with ordinality i(stretch, n)
  join kilolock.archive_records r on r.archive_id = p_archive_id and r.kind = 'C'
    and r.n between (i.stretch ->> 0)::bigint and (i.stretch ->> 0)::bigint + (i.stretch ->> 1)::bigint - 1;
  if octet_length(v_body) is distinct from v_item.size or md5(v_body) is distinct from v_item.md5 then
    raise exception 'version % is not the document that the archive describes', v_item.version
      using errcode = 'KLB09', detail = format('%s bytes with MD5 %s, not %s with %s', octet_length(v_body), md5(v_body),
        v_item.size, v_item.md5);
  end if;
  perform kilolock._write_document(p_state, convert_from(v_body, 'UTF8'), v_item.size, v_item.md5, v_item.source, v_item.actor,
    p_force => true, p_version => v_item.version, p_at => v_item.created_at);
  update kilolock.version_documents d
  set created_count = v_item.created, updated_count = v_item.updated, deleted_count = v_item.deleted
  where d.state_id = p_state.id and d.version = v_item.version;
end;
$$;

comment on function kilolock._replay_version(kilolock.states, uuid, jsonb) is
  'Write a version as an archive has it.';
revoke all on function kilolock._replay_version(kilolock.states, uuid, jsonb) from public;
