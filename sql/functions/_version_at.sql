-- The version that was the head of a state at a moment.
--
-- Raises  KLN03  the state was not yet written then, or deleted, or that version was pruned
create or replace function kilolock._version_at(p_state kilolock.states, p_at timestamptz)
  returns kilolock.version_documents
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_document kilolock.version_documents;
begin
  select d.* into v_document from kilolock.version_documents d
  where d.state_id = p_state.id and d.created_at <= p_at
  order by d.version desc
  limit 1;
  if not found then
    raise exception 'state "%" has no version as early as %', p_state.name, p_at
      using errcode = 'KLN03', hint = 'The table state_versions lists the versions of every state.';
  elsif kilolock._deleted_at(p_state.id, v_document.version) <= p_at then
    raise exception 'state "%" was deleted at %', p_state.name, kilolock._deleted_at(p_state.id, v_document.version)
      using errcode = 'KLN03', hint = format('Its last version before that is %s.', v_document.version);
  end if;
  return kilolock._kept_version(p_state, v_document);
end;
$$;

comment on function kilolock._version_at(kilolock.states, timestamptz) is
  'The version that was the head of a state at a moment.';
revoke all on function kilolock._version_at(kilolock.states, timestamptz) from public;
