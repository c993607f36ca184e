-- POST /v1/purge: kl purge
--
-- p_request  {"state", "version": a reference}
--
-- Removes one version that must not exist any more: its document, as far as no other version shares it, and the rows that
-- only it showed. What other versions hold of the same content stays with them.
--
-- Answers {"state", "version", "serial", "bytes", "past_rows", "shared_bytes"}; shared_bytes of the document stay, since
-- other versions hold them too.
--
-- Raises  KLB05, KLB06  the request is malformed
--         KLC06  it is the head, or tagged
--         KLN01, KLN03  no such state or version (_version_of)
-- Locks   the states row
create or replace function kilolock.purge_version(p_request jsonb, p_actor text)
  returns json
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_ref      constant text := kilolock._requested_text(p_request, 'version', true);
  v_state    kilolock.states := kilolock._requested_state(p_request);
  v_document kilolock.version_documents := kilolock._version_of(v_state, v_ref);
  v_tag      text;
  v_shared   bigint;
  v_dropped  record;
begin
  if v_document.id = v_state.current_version_id then
    raise exception 'version % is the head of state "%"', v_document.version, v_state.name
      using errcode = 'KLC06', hint = 'Write another version or roll back first; then it can go.';
  end if;
  select min(t.name) into v_tag from kilolock.tags t where t.state_id = v_state.id and t.version = v_document.version;
  if v_tag is not null then
    raise exception 'version % of state "%" is tagged "%"', v_document.version, v_state.name, v_tag
      using errcode = 'KLC06', hint = 'Remove the tag first: kl tag unset.';
  end if;

  select coalesce(sum(octet_length(c.data)), 0) into v_shared
  from (
    select u.id from unnest(v_document.chunk_ids) u(id)
    intersect
    select u.id
    from kilolock.version_documents d
    cross join unnest(d.chunk_ids) u(id)
    where d.state_id = v_state.id and d.version <> v_document.version
  ) x
  join kilolock.document_chunks c on c.id = x.id;
  select x.bytes, x.past_rows into v_dropped
  from kilolock._drop_versions(v_state.id, array[v_document.version], p_apply => true, p_strict => true) x;
  insert into kilolock.events (state_id, kind, actor, payload)
  values (v_state.id, 'version_purge', kilolock._actor(p_request, p_actor), jsonb_build_object(
    'version', v_document.version, 'serial', v_document.serial, 'bytes', v_dropped.bytes));
  return json_build_object('state', v_state.name, 'version', v_document.version, 'serial', v_document.serial,
    'bytes', v_dropped.bytes, 'past_rows', v_dropped.past_rows, 'shared_bytes', v_shared);
end;
$$;

comment on function kilolock.purge_version(jsonb, text) is
  'Remove one version of a state and what only it showed.';
revoke all on function kilolock.purge_version(jsonb, text) from public;
grant execute on function kilolock.purge_version(jsonb, text) to kilolock_app;
