-- POST /v1/state/mv: kl state mv
--
-- Gives a resource another address: one instance, a block with its instances, or a module with all in it. The lists of
-- dependencies that name it follow. The row keeps its id, and its history goes on as a move.
--
-- p_request  {"state", "from", "to": addresses, "apply": false only tells what would change, "base": the version that the
--            caller takes for the head, "lock_id"}
-- Answers    {"state", "changed", "applied", "from": version, "version", "serial": what the new version has or would have,
--            "changes": [{"change", "address", "deposed", "from_address"}], "followers": [address]: the resources whose lists
--            of dependencies change}
--
-- Raises  KLB05, KLB06  the request is malformed
--         KLB21  no address, or a move that cannot be: to another type, from managed to data, of several to one
--         KLN01  no such state
--         KLN04  no such resource
--         KLC01, KLL01  somebody else's lock (_check_lock)
--         KLC21  the state moved on since the caller looked (_check_base)
--         KLC22  something has the new address already
--         and as _write_delta
-- Locks   the states row
create or replace function kilolock.move_resource(p_request jsonb, p_actor text)
  returns json
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_from    constant text := kilolock._requested_text(p_request, 'from', true);
  v_to      constant text := kilolock._requested_text(p_request, 'to', true);
  v_base    constant text := kilolock._requested_text(p_request, 'base');
  v_lock_id constant text := kilolock._requested_text(p_request, 'lock_id');
  v_apply   constant boolean := kilolock._requested_flag(p_request, 'apply');
  v_state   kilolock.states := kilolock._requested_state(p_request);
  v_head    kilolock.version_documents := kilolock._version_of(v_state, 'current');
  v_plan    record;
begin
  perform kilolock._check_base(v_state, v_base);
  if v_apply then
    perform kilolock._check_lock(v_state, v_lock_id);
  end if;
  select m.* into v_plan from kilolock._plan_move(v_state, v_head, v_from, v_to) m;
  if v_apply then
    perform kilolock._write_delta(v_state, v_plan.delta, 'state-engine', kilolock._actor(p_request, p_actor),
      jsonb_build_object('operation', 'state mv', 'from', v_from, 'to', v_to));
  end if;
  return json_build_object('state', v_state.name, 'changed', true, 'applied', v_apply, 'from', kilolock._describe_version(v_head),
    'version', v_head.version + 1, 'serial', v_head.serial + 1, 'changes', v_plan.changes, 'followers', v_plan.followers);
end;
$$;

comment on function kilolock.move_resource(jsonb, text) is
  'Give a resource of a state another address, or tell what that would change.';
revoke all on function kilolock.move_resource(jsonb, text) from public;
grant execute on function kilolock.move_resource(jsonb, text) to kilolock_app;
