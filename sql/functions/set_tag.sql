-- POST /v1/tag/set: kl tag set
--
-- p_request  {"state", "tag", "version": a reference, by default current, "force"}
--
-- The tag keeps its version from being pruned. Setting it where it is already changes nothing; moving it needs force. A name
-- that could be read as another kind of reference is refused, so that a reference never means two versions.
--
-- Answers {"state", "tag", "version", "serial", "moved_from", "changed"}.
--
-- Raises  KLB05, KLB06  the request is malformed
--         KLB07  no name for a tag
--         KLC05  the tag points to another version, and force is not said
--         KLN01, KLN03  no such state or version (_version_of)
-- Locks   the states row
create or replace function kilolock.set_tag(p_request jsonb, p_actor text)
  returns json
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_name     constant text := kilolock._requested_text(p_request, 'tag', true);
  v_force    constant boolean := kilolock._requested_flag(p_request, 'force');
  v_actor    constant text := kilolock._actor(p_request, p_actor);
  v_state    kilolock.states;
  v_document kilolock.version_documents;
  v_before   bigint;
begin
  if octet_length(v_name) not between 1 and 255 or v_name ~ '[\u0001-\u001f\u007f-\u009f]' or v_name <> btrim(v_name) then
    raise exception 'a tag has 1 to 255 bytes, no control characters and no blanks around it'
      using errcode = 'KLB07', hint = 'Name it like before-upgrade.';
  elsif v_name ~ '^([0-9]+$|@|-|serial:)' or lower(v_name) = 'current' or kilolock._read_time(v_name) is not null then
    raise exception 'a tag cannot be named "%", since that means something else where a version is asked for', v_name
      using errcode = 'KLB07', hint = 'Numbers, times, current, @… and serial:… are taken. Name it like before-upgrade.';
  end if;

  v_state := kilolock._requested_state(p_request);
  v_document := kilolock._version_of(v_state, kilolock._requested_text(p_request, 'version'));
  select t.version into v_before from kilolock.tags t where t.state_id = v_state.id and t.name = v_name;
  if v_before <> v_document.version and not v_force then
    raise exception 'tag "%" of state "%" points to version %, not %', v_name, v_state.name, v_before, v_document.version
      using errcode = 'KLC05', hint = 'Move it with --force, or take another name.';
  end if;
  if v_before is distinct from v_document.version then
    insert into kilolock.tags (state_id, name, version, actor)
    values (v_state.id, v_name, v_document.version, v_actor)
    on conflict on constraint tags_pkey
      do update set version = excluded.version, actor = excluded.actor, created_at = excluded.created_at;
    insert into kilolock.events (state_id, kind, actor, payload)
    values (v_state.id, 'tag_set', v_actor, jsonb_strip_nulls(jsonb_build_object(
      'tag', v_name, 'version', v_document.version, 'moved_from', v_before)));
  end if;
  return json_build_object('state', v_state.name, 'tag', v_name, 'version', v_document.version, 'serial', v_document.serial,
    'moved_from', nullif(v_before, v_document.version), 'changed', v_before is distinct from v_document.version);
end;
$$;

comment on function kilolock.set_tag(jsonb, text) is
  'Let a tag of a state point to a version.';
revoke all on function kilolock.set_tag(jsonb, text) from public;
grant execute on function kilolock.set_tag(jsonb, text) to kilolock_app;
