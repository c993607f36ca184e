-- POST /v1/state/rm: kl state rm
--
-- Takes resources out of a state without touching them: instances, whole blocks or modules. Lists of dependencies that
-- name them stay, as terraform state rm leaves them.
--
-- p_request  {"state", "addresses": [address], "apply": false only tells what would change, "base": the version that the
--            caller takes for the head, "lock_id"}
-- Answers    {"state", "changed", "applied", "from": version, "version", "serial": what the new version has or would have,
--            "changes": [{"change", "address", "deposed"}], "dependents": [{"address", "depends_on"}]: the live resources
--            that depend on one of them}
--
-- Raises  KLB05, KLB06  the request is malformed
--         KLN01  no such state
--         KLN04  no such resource
--         KLC01, KLL01  somebody else's lock (_check_lock)
--         KLC21  the state moved on since the caller looked (_check_base)
--         and as _write_delta
-- Locks   the states row
create or replace function kilolock.remove_resources(p_request jsonb, p_actor text)
  returns json
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_base    constant text := kilolock._requested_text(p_request, 'base');
  v_lock_id constant text := kilolock._requested_text(p_request, 'lock_id');
  v_apply   constant boolean := kilolock._requested_flag(p_request, 'apply');
  v_wanted  text[];
  v_state   kilolock.states;
  v_head    kilolock.version_documents;
  v_absent  text;
  v_ids     bigint[];
  v_blocks  uuid[];
  v_remove  jsonb;
  v_changes json;
  v_depend  json;
begin
  if coalesce(jsonb_typeof(p_request -> 'addresses'), 'null') <> 'array' or p_request -> 'addresses' = '[]'
    or jsonb_path_exists(p_request, 'strict $.addresses[*] ? (@.type() != "string")') then
    raise exception '"addresses" of the request is no list of addresses'
      using errcode = 'KLB06', hint = 'Send JSON such as {"state": "prod", "addresses": ["aws_vpc.main"]}.';
  end if;
  v_wanted := array(select jsonb_array_elements_text(p_request -> 'addresses'));
  v_state := kilolock._requested_state(p_request);
  v_head := kilolock._version_of(v_state, 'current');
  perform kilolock._check_base(v_state, v_base);
  if v_apply then
    perform kilolock._check_lock(v_state, v_lock_id);
  end if;

  with found as materialized (
    select w.address as wanted, r.id, r.block_id, r.address, r.deposed_key
    from unnest(v_wanted) w(address)
    left join kilolock.resources r on r.state_version_id = v_state.current_version_id
      and kilolock._matches_address(w.address, r.address, r.module_path, r.mode, r.type, r.name)
  ),
  gone as (
    select distinct f.id, f.address, f.deposed_key from found f where f.id is not null
  )
  select (select min(f.wanted) from found f where f.id is null),
         array(select g.id from gone g), array(select distinct f.block_id from found f where f.id is not null),
         (select jsonb_agg(jsonb_build_object('address', g.address, 'deposed', g.deposed_key)) from gone g),
         (select json_agg(json_build_object('change', 'delete', 'address', g.address, 'deposed', g.deposed_key)
                   order by g.address, g.deposed_key nulls first) from gone g)
  into v_absent, v_ids, v_blocks, v_remove, v_changes;
  if v_absent is not null then
    raise exception 'state "%" has no resource "%"', v_state.name, v_absent
      using errcode = 'KLN04', hint = 'Addresses are written as terraform state list prints them, keys in double quotes.';
  end if;
  select coalesce(json_agg(json_build_object('address', d.address, 'depends_on', d.depends_on) order by d.address, d.depends_on), '[]')
  into v_depend
  from kilolock._dependents(v_state, v_blocks, v_ids) d;

  if v_apply then
    perform kilolock._write_delta(v_state, jsonb_build_object('remove', v_remove), 'state-engine',
      kilolock._actor(p_request, p_actor), jsonb_build_object('operation', 'state rm', 'addresses', p_request -> 'addresses'));
  end if;
  return json_build_object('state', v_state.name, 'changed', true, 'applied', v_apply, 'from', kilolock._describe_version(v_head),
    'version', v_head.version + 1, 'serial', v_head.serial + 1, 'changes', v_changes, 'dependents', v_depend);
end;
$$;

comment on function kilolock.remove_resources(jsonb, text) is
  'Take resources out of a state, or tell what that would change.';
revoke all on function kilolock.remove_resources(jsonb, text) from public;
grant execute on function kilolock.remove_resources(jsonb, text) to kilolock_app;
