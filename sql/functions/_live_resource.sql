-- A live resource by its address; the current object before deposed ones.
--
-- Raises  KLN01  no such state, or deleted
--         KLN04  no such address in it
create or replace function kilolock._live_resource(p_state text, p_address text)
  returns kilolock.resources
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_head     constant bigint := kilolock._current_version_id(p_state);
  v_resource kilolock.resources;
begin
  select r.* into v_resource
  from kilolock.resources r
  where r.state_version_id = v_head and r.address = p_address
  order by r.deposed_key nulls first
  limit 1;
  if not found then
    raise exception 'state "%" has no resource "%"', p_state, p_address
      using errcode = 'KLN04', hint = 'Addresses are written as terraform state list prints them, keys in double quotes.';
  end if;
  return v_resource;
end;
$$;

comment on function kilolock._live_resource(text, text) is
  'A live resource by its address.';
revoke all on function kilolock._live_resource(text, text) from public;
