-- POST /v1/tag/unset: kl tag unset
--
-- p_request  {"state", "tag"}
--
-- Answers {"state", "tag", "version"}, where it pointed to.
--
-- Raises  KLB05, KLB06  the request is malformed
--         KLN01  no such state
--         KLN05  no such tag
-- Locks   the states row
create or replace function kilolock.unset_tag(p_request jsonb, p_actor text)
  returns json
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_name    constant text := kilolock._requested_text(p_request, 'tag', true);
  v_state   kilolock.states := kilolock._requested_state(p_request);
  v_version bigint;
begin
  delete from kilolock.tags t where t.state_id = v_state.id and t.name = v_name returning t.version into v_version;
  if not found then
    raise exception 'state "%" has no tag "%"', v_state.name, v_name
      using errcode = 'KLN05', hint = 'kl tag list shows its tags.';
  end if;
  insert into kilolock.events (state_id, kind, actor, payload)
  values (v_state.id, 'tag_unset', kilolock._actor(p_request, p_actor),
          jsonb_build_object('tag', v_name, 'version', v_version));
  return json_build_object('state', v_state.name, 'tag', v_name, 'version', v_version);
end;
$$;

comment on function kilolock.unset_tag(jsonb, text) is
  'Remove a tag of a state; the version stays.';
revoke all on function kilolock.unset_tag(jsonb, text) from public;
grant execute on function kilolock.unset_tag(jsonb, text) to kilolock_app;
