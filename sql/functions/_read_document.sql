-- The document of a version, as it was posted.
create or replace function kilolock._read_document(p_version kilolock.version_documents)
  returns text
  language sql
  stable
  set search_path = pg_catalog, pg_temp
as $$
  select string_agg(c.data, '' order by i.n)
  from unnest(p_version.chunk_ids) with ordinality i(id, n)
  join kilolock.document_chunks c on c.id = i.id
$$;

comment on function kilolock._read_document(kilolock.version_documents) is
  'The document of a version.';
revoke all on function kilolock._read_document(kilolock.version_documents) from public;
