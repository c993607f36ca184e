-- A version for people who choose between versions; null for none.
create or replace function kilolock._describe_version(p_version kilolock.version_documents)
  returns json
  language sql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
  select case when p_version.version is not null then json_build_object('version', p_version.version,
    'serial', p_version.serial, 'lineage', p_version.lineage, 'created_at', p_version.created_at, 'actor', p_version.actor,
    'source', p_version.source, 'resources', p_version.resource_count) end
$$;

comment on function kilolock._describe_version(kilolock.version_documents) is
  'A version as JSON: number, serial, lineage, when, who.';
revoke all on function kilolock._describe_version(kilolock.version_documents) from public;
