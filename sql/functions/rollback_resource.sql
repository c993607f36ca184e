-- POST /v1/rollback/resource: kl rollback resource
--
-- Brings one resource back to what it was at an older version, or all instances of a block or of a module, and leaves
-- the rest of the state as it is. A resource is told by its id: one that has another address now goes back to its old one,
-- and what was not there yet goes.
--
-- p_request  {"state", "address", "version": a reference, "strict": refuse if live resources depend on what would go,
--            "apply": false only tells what would change, "base": the version that the caller takes for the head, "lock_id"}
-- Answers    {"state", "changed", "applied", "from", "to": versions, "version", "serial": what the new version has or would
--            have, "changes": [{"change", "address", "deposed", "from_address"}], "dependents": [{"address", "depends_on"}]}:
--            the live resources that depend on one of them
--
-- Raises  KLB05, KLB06  the request is malformed
--         KLN01, KLN03  no such state or version (_version_of)
--         KLN04  no such resource, neither now nor at that version
--         KLC01, KLL01  somebody else's lock (_check_lock)
--         KLC20  the head or that version is encrypted
--         KLC21  the state moved on since the caller looked (_check_base)
--         KLC22  something else has the address that a resource had
--         KLC23  strict, and live resources depend on what would go
-- Locks   the states row
create or replace function kilolock.rollback_resource(p_request jsonb, p_actor text)
  returns json
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_address constant text := kilolock._requested_text(p_request, 'address', true);
  v_ref     constant text := kilolock._requested_text(p_request, 'version', true);
  v_base    constant text := kilolock._requested_text(p_request, 'base');
  v_lock_id constant text := kilolock._requested_text(p_request, 'lock_id');
  v_strict  constant boolean := kilolock._requested_flag(p_request, 'strict');
  v_apply   constant boolean := kilolock._requested_flag(p_request, 'apply');
  v_state   kilolock.states := kilolock._requested_state(p_request);
  v_head    kilolock.version_documents := kilolock._version_of(v_state, 'current');
  v_target  kilolock.version_documents := kilolock._version_of(v_state, v_ref);
  v_plan    record;
  v_result  json;
begin
  perform kilolock._check_base(v_state, v_base);
  if v_apply then
    perform kilolock._check_lock(v_state, v_lock_id);
  end if;
  if v_head.encrypted or v_target.encrypted then
    raise exception 'state "%" is or was encrypted, so that its resources cannot be told apart', v_state.name
      using errcode = 'KLC20', hint = 'kl rollback without an address brings back the whole version.';
  end if;

  select r.* into v_plan from kilolock._plan_resource_rollback(v_state, v_target, v_address) r;
  if not v_plan.is_known then
    raise exception 'state "%" has no resource "%", neither now nor at version %', v_state.name, v_address, v_target.version
      using errcode = 'KLN04', hint = 'Addresses are written as terraform state list prints them, keys in double quotes.';
  elsif v_plan.taken is not null then
    raise exception 'state "%": "%" is the address of another resource now', v_state.name, v_plan.taken
      using errcode = 'KLC22', hint = 'Move that one away first, with kl state mv, or bring it back too.';
  elsif v_strict and v_plan.needed is not null then
    raise exception 'state "%": "%" would go, and "%" depends on it', v_state.name, v_plan.needed, v_plan.needed_by
      using errcode = 'KLC23', hint = 'kl rollback resource without --strict goes on all the same.';
  end if;
  if v_plan.changed and v_apply then
    v_result := kilolock._write_delta(v_state, v_plan.delta, 'rollback', kilolock._actor(p_request, p_actor),
      jsonb_build_object('operation', 'rollback resource', 'address', v_address, 'rolled_back_to', v_target.version));
  end if;
  return json_build_object('state', v_state.name, 'changed', v_plan.changed, 'applied', v_plan.changed and v_apply,
    'from', kilolock._describe_version(v_head), 'to', kilolock._describe_version(v_target),
    'version', v_head.version + v_plan.changed::integer, 'serial', v_head.serial + v_plan.changed::integer,
    'changes', v_plan.changes, 'dependents', v_plan.dependents);
end;
$$;

comment on function kilolock.rollback_resource(jsonb, text) is
  'Bring single resources back to what they were at an older version, or tell what that would change.';
revoke all on function kilolock.rollback_resource(jsonb, text) from public;
grant execute on function kilolock.rollback_resource(jsonb, text) to kilolock_app;
