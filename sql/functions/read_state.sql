-- GET /v1/states/{name}
--
-- The document in pieces: joined in the order they come they are the bytes that were posted. p_ref asks for an
-- older version, of a deleted state too, in any of the forms that _version_of lists.
--
-- Raises  KLN01  never written or deleted
--         KLN03  no such version
drop function if exists kilolock.read_state(text, text, text, bigint);
create or replace function kilolock.read_state(
  p_workspace text, p_environment text, p_name text, p_ref text default null
)
  returns table (version bigint, serial numeric, raw_size bigint, raw_md5 text, chunk bytea)
  language plpgsql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
  set work_mem = '256MB'
as $$
declare
  v_document kilolock.version_documents;
begin
  v_document := kilolock._find_version(p_workspace, p_environment, p_name, p_ref);
  return query
    select v_document.version, v_document.serial, v_document.raw_size, v_document.raw_md5, convert_to(c.data, 'UTF8')
    from unnest(v_document.chunk_ids) with ordinality i(id, n)
    join kilolock.document_chunks c on c.id = i.id
    order by i.n;
end;
$$;

comment on function kilolock.read_state(text, text, text, text) is
  'The document of a version, in pieces, byte for byte as it was posted.';
revoke all on function kilolock.read_state(text, text, text, text) from public;
grant execute on function kilolock.read_state(text, text, text, text) to kilolock_app;
