-- What depends on an address, one hop.
--
-- Raises  KLN01  no such state
--         KLN04  no such address in it
create or replace function kilolock.dependents_of(p_state text, p_address text)
  returns table (address text, type text, resource_id bigint)
  language plpgsql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
as $$
#variable_conflict use_column
declare
  v_id bigint := (kilolock._live_resource(p_state, p_address)).id;
begin
  return query
    select r.address, r.type, r.id
    from kilolock.resource_dependencies d
    join kilolock.resources r on r.id = d.from_resource_id
    where d.to_resource_id = v_id
    order by r.id;
end;
$$;

comment on function kilolock.dependents_of(text, text) is
  'What depends on an address, one hop.';
revoke all on function kilolock.dependents_of(text, text) from public;
grant execute on function kilolock.dependents_of(text, text) to kilolock_reader, kilolock_app;
