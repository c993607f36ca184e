-- Make a version the head of a state: what every write ends with, once the document is stored and the rows match it
--
-- p_state           the state as it was, but with the id of its head, which passes on to the new one
-- p_new             the version, but for its id
-- p_moved           how many of its updated_count moved
-- p_managed_change  by how much the resources that quotas count became more
-- p_payload         more for the event
-- p_is_limited      whether quotas hold for it
--
-- Answers {"state", "version", "serial", "created", "updated", "deleted", "moved", "changed"}.
--
-- Raises  KLQ01, KLQ02  more than a hard limit (_check_quota)
create or replace function kilolock._record_version(
  p_state kilolock.states, p_new kilolock.version_documents, p_moved integer, p_managed_change integer, p_payload jsonb,
  p_is_limited boolean default true
)
  returns json
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
begin
  if p_is_limited then
    perform kilolock._check_quota(p_state, p_state.managed_count, p_state.managed_count + p_managed_change,
      p_state.head_size, p_new.raw_size);
  end if;
  update kilolock.version_documents d
  set id = nextval(pg_get_serial_sequence('kilolock.version_documents', 'id'))
  where d.id = p_state.current_version_id and d.state_id = p_state.id;
  insert into kilolock.version_documents (id, state_id, version, serial, lineage, terraform_version, raw_size, raw_md5,
    resource_count, created_count, updated_count, deleted_count, encrypted, source, actor, created_at, chunk_ids, rows_digest,
    is_laid_out)
  values (p_state.current_version_id, p_state.id, p_new.version, p_new.serial, p_new.lineage, p_new.terraform_version,
    p_new.raw_size, p_new.raw_md5, p_new.resource_count, p_new.created_count, p_new.updated_count, p_new.deleted_count,
    p_new.encrypted, p_new.source, p_new.actor, p_new.created_at, p_new.chunk_ids, p_new.rows_digest, p_new.is_laid_out);
  update kilolock.states s
  set current_version_id = p_state.current_version_id, head_version = p_new.version, serial = p_new.serial,
      lineage = p_new.lineage, terraform_version = p_new.terraform_version, resource_count = p_new.resource_count,
      updated_at = p_new.created_at, managed_count = s.managed_count + p_managed_change, head_size = p_new.raw_size
  where s.id = p_state.id;
  insert into kilolock.events (state_id, kind, actor, created_at, payload)
  values (p_state.id, 'state_write', p_new.actor, p_new.created_at, p_payload || jsonb_build_object(
    'version', p_new.version, 'serial', p_new.serial, 'source', p_new.source, 'created', p_new.created_count,
    'updated', p_new.updated_count - p_moved, 'moved', p_moved, 'deleted', p_new.deleted_count));
  return json_build_object('state', p_state.name, 'version', p_new.version, 'serial', p_new.serial,
    'created', p_new.created_count, 'updated', p_new.updated_count - p_moved, 'deleted', p_new.deleted_count,
    'moved', p_moved, 'changed', true);
end;
$$;

comment on function kilolock._record_version(kilolock.states, kilolock.version_documents, integer, integer, jsonb, boolean) is
  'Make a version the head of a state.';
revoke all on function kilolock._record_version(kilolock.states, kilolock.version_documents, integer, integer, jsonb, boolean) from public;
