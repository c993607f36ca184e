-- POST /v1/refresh-runs/preview
--
-- What kl refresh would store for this document; it stores nothing. Needs no lock, so the head may have moved since
-- the document was made from it: then nothing can be said.
--
-- p_request  {"state", "workspace", "environment", "who", "version": the head that was refreshed, "document": text}
-- Answers    {"drifted", "changes": JSON text as of _write_refresh}
--
-- Raises  KLB06  a field is missing or of the wrong type
--         KLB01  the document is no state
--         KLN01  never written or deleted
--         KLC07  encrypted or too large (_check_refreshable)
--         KLC08  the head is another version by now
-- Locks   the states row
create or replace function kilolock.preview_refresh(p_request jsonb, p_actor text)
  returns json
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_state  kilolock.states;
  v_result record;
begin
  if jsonb_typeof(p_request -> 'document') is distinct from 'string'
    or jsonb_typeof(p_request -> 'version') is distinct from 'number' then
    raise exception 'document is no text or version no number'
      using errcode = 'KLB06', hint = 'Send the refreshed state file as "document" and the version it was made from as "version".';
  end if;
  v_state := kilolock._requested_state(p_request);
  if v_state.current_version_id is null then
    raise exception 'state "%" does not exist', v_state.name
      using errcode = 'KLN01', hint = 'It was deleted; its versions are in state_versions.';
  elsif (p_request ->> 'version')::numeric <> v_state.head_version then
    raise exception 'state "%" is at version % by now, not at %', v_state.name, v_state.head_version, p_request ->> 'version'
      using errcode = 'KLC08', hint = 'Somebody wrote while the refresh ran. Run it again.';
  end if;
  perform kilolock._check_refreshable(v_state.name, d)
  from kilolock.version_documents d
  where d.state_id = v_state.id and d.version = v_state.head_version;
  select w.drifted_count, w.changes into v_result
  from kilolock._write_refresh(v_state, p_request ->> 'document', kilolock._actor(p_request, p_actor), null, false, '{}') w;
  return json_build_object('drifted', v_result.drifted_count, 'changes', v_result.changes);
end;
$$;

comment on function kilolock.preview_refresh(jsonb, text) is
  'What a refresh would store for a document, without storing it.';
revoke all on function kilolock.preview_refresh(jsonb, text) from public;
grant execute on function kilolock.preview_refresh(jsonb, text) to kilolock_app;
