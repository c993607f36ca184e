-- POST /v1/archives/{name}, kl import --archive: keep one record of an archive for import_archive
--
-- Called once a record, in the transaction in which import_archive is called; what is staged is gone with it.
create or replace function kilolock.stage_archive_record(p_archive_id uuid, p_n bigint, p_kind text, p_data bytea)
  returns void
  language sql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
  insert into kilolock.archive_records (archive_id, n, kind, data) values (p_archive_id, p_n, p_kind, p_data)
$$;

comment on function kilolock.stage_archive_record(uuid, bigint, text, bytea) is
  'Keep one record of an archive for import_archive.';
revoke all on function kilolock.stage_archive_record(uuid, bigint, text, bytea) from public;
grant execute on function kilolock.stage_archive_record(uuid, bigint, text, bytea) to kilolock_app;
