-- A version as it is, if it was kept.
--
-- Raises  KLN03  it was pruned
create or replace function kilolock._kept_version(p_state kilolock.states, p_document kilolock.version_documents)
  returns kilolock.version_documents
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
begin
  if p_document.pruned_at is not null then
    raise exception 'version % of state "%" was pruned at %', p_document.version, p_state.name, p_document.pruned_at
      using errcode = 'KLN03', hint = 'Its document is gone; state_versions lists the versions that were kept.';
  end if;
  return p_document;
end;
$$;

comment on function kilolock._kept_version(kilolock.states, kilolock.version_documents) is
  'A version as it is, if it was kept.';
revoke all on function kilolock._kept_version(kilolock.states, kilolock.version_documents) from public;
