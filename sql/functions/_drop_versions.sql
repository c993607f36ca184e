-- Remove the documents of versions and whatever nothing else shows: chunks, past rows, past outputs. With p_apply false it
-- is only counted.
--
-- Called with the states row locked, for versions that are neither the head nor tagged. Their rows in version_documents stay
-- without a document, so that history still says who made what a kept version shows. Rows that reports of drift look back to
-- stay too, but for p_strict.
create or replace function kilolock._drop_versions(
  p_state_id bigint, p_versions bigint[], p_apply boolean, p_strict boolean,
  out bytes bigint, out past_rows bigint
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  set work_mem = '64MB'
as $$
declare
  v_kept      bigint[];
  v_refreshed bigint[] := '{}';
  v_chunks    bigint[];
begin
  select coalesce(array_agg(d.version order by d.version), '{}') into v_kept
  from kilolock.version_documents d
  where d.state_id = p_state_id and d.pruned_at is null and d.version <> all (p_versions);
  if not p_strict then
    select coalesce(array_agg(d.version), '{}') into v_refreshed
    from kilolock.version_documents d
    where d.state_id = p_state_id and d.source = 'refresh' and d.version > coalesce((
      select max(a.version) from kilolock.version_documents a
      where a.state_id = p_state_id and a.source = 'apply'), 0);
  end if;

  select coalesce(array_agg(x.id), '{}') into v_chunks
  from (
    select u.id
    from kilolock.version_documents d
    cross join unnest(d.chunk_ids) u(id)
    where d.state_id = p_state_id and d.version = any (p_versions)
    except
    select u.id
    from kilolock.version_documents d
    cross join unnest(d.chunk_ids) u(id)
    where d.state_id = p_state_id and d.version = any (v_kept)
  ) x;
  select coalesce(sum(pg_column_size(c.data)), 0) into bytes
  from kilolock.document_chunks c
  where c.id = any (v_chunks);

  -- The next version kept from from_version on is found by halving; a stretch that ends before it is shown by none.
  select count(*), bytes + coalesce(sum(pg_column_size(p.attributes)), 0) into past_rows, bytes
  from kilolock.past_resources p
  where p.state_id = p_state_id and p.until_version <> all (v_refreshed)
    and coalesce(v_kept[width_bucket(p.from_version - 1, v_kept) + 1] >= p.until_version, true);
  if not p_apply then
    return;
  end if;

  update kilolock.version_documents d
  set pruned_at = clock_timestamp(), chunk_ids = '{}', rows_digest = null
  where d.state_id = p_state_id and d.version = any (p_versions);
  delete from kilolock.document_chunks c where c.id = any (v_chunks);
  delete from kilolock.past_resources p
  where p.state_id = p_state_id and p.until_version <> all (v_refreshed)
    and coalesce(v_kept[width_bucket(p.from_version - 1, v_kept) + 1] >= p.until_version, true);
  delete from kilolock.past_outputs p
  where p.state_id = p_state_id
    and coalesce(v_kept[width_bucket(p.from_version - 1, v_kept) + 1] >= p.until_version, true);
end;
$$;

comment on function kilolock._drop_versions(bigint, bigint[], boolean, boolean) is
  'Remove the documents of versions and what only they showed.';
revoke all on function kilolock._drop_versions(bigint, bigint[], boolean, boolean) from public;
