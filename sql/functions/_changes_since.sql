-- What changed in a state after a version, as far as a request's addresses cover it or are covered by it.
--
-- Called with the states row locked. A resource changed if it became what it is after that version, or if something that
-- it was ended after it: deletions and moves count under the address that went, too. What the run of the request wrote
-- itself does not count. changed lists the first of total.
create or replace function kilolock._changes_since(
  p_state kilolock.states, p_version bigint, p_request kilolock.reservation_requests,
  out total bigint, out changed json, out outputs_changed boolean
)
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
  set enable_nestloop = off
  set work_mem = '64MB'
as $$
declare
  v_own     bigint[];
  v_changed text[];
  v_apart   text[];
begin
  outputs_changed := false;
  if p_version <> kilolock._head_version(p_state) then
    select array(select c.version from kilolock.apply_run_commits c where c.apply_run_id = p_request.apply_run_id) into v_own;
    outputs_changed := exists (
      select from kilolock.outputs o
      where o.state_id = p_state.id and o.since_version > p_version and o.since_version <> all (v_own)
      union all
      select from kilolock.past_outputs o
      where o.state_id = p_state.id and o.until_version > p_version and o.until_version <> all (v_own));
    select array_agg(x.address) into v_changed
    from (
      select r.address
      from kilolock.resources r
      where r.state_version_id = p_state.current_version_id and r.since_version > p_version and r.since_version <> all (v_own)
      union
      select p.address
      from kilolock.past_resources p
      where p.state_id = p_state.id and p.until_version > p_version and p.until_version <> all (v_own)
    ) x;
  end if;
  v_apart := kilolock._uncovered(v_changed, p_request.writes || p_request.reads);
  select count(*), coalesce(json_agg(y.address order by y.n) filter (where y.n <= 1000), '[]')
  into total, changed
  from (
    select c.address, row_number() over (order by c.address collate "C") as n
    from unnest(v_changed) c(address)
    left join unnest(v_apart) a(address) on a.address = c.address
    left join (
      select w.address from unnest(p_request.write_paths) w(address)
      union
      select r.address from unnest(p_request.read_paths) r(address)
    ) m on m.address = c.address
    where a.address is null or m.address is not null
  ) y;
end;
$$;

comment on function kilolock._changes_since(kilolock.states, bigint, kilolock.reservation_requests) is
  'What changed within reach of a request after a version.';
revoke all on function kilolock._changes_since(kilolock.states, bigint, kilolock.reservation_requests) from public;
