-- The live resources of a state that some addresses mean, in the order of terraform state list; all where none is given.
--
-- An address is an instance's, a block's with all of its instances, or a module's with all in it.
--
-- Raises  KLN01  no such state, or deleted
--         KLN04  an address means nothing in it
create or replace function kilolock.find_resources(p_state text, p_addresses text[] default '{}')
  returns table (address text, deposed_key text, mode text, type text, module_path text, status text, provider text, resource_id bigint)
  language plpgsql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
as $$
#variable_conflict use_column
declare
  v_head    constant bigint := kilolock._current_version_id(p_state);
  v_wanted  constant text[] := coalesce(p_addresses, '{}');
  v_missing text;
begin
  select min(w.address) into v_missing
  from unnest(v_wanted) w(address)
  where not exists (
    select from kilolock.resources r
    where r.state_version_id = v_head and kilolock._matches_address(w.address, r.address, r.module_path, r.mode, r.type, r.name));
  if v_missing is not null then
    raise exception 'state "%" has no resource "%"', p_state, v_missing
      using errcode = 'KLN04', hint = 'Addresses are written as terraform state list prints them, keys in double quotes.';
  end if;
  return query
    select r.address, r.deposed_key, r.mode, r.type, r.module_path, r.status, r.provider, r.id
    from kilolock.resources r
    join (
      select m.module_path, length(c.path) - length(replace(c.path, '.', '')) as depth
      from (select distinct x.module_path from kilolock.resources x where x.state_version_id = v_head) m
      cross join lateral (select kilolock._config_address(m.module_path) as path) c
    ) m on m.module_path = r.module_path
    where r.state_version_id = v_head
      and (v_wanted = '{}' or exists (
        select from unnest(v_wanted) w(address)
        where kilolock._matches_address(w.address, r.address, r.module_path, r.mode, r.type, r.name)))
    order by r.module_path <> '', m.depth, r.module_path collate "C", r.mode, r.type collate "C", r.name collate "C",
             kilolock._instance_order(r.index_key, r.deposed_key);
end;
$$;

comment on function kilolock.find_resources(text, text[]) is
  'The live resources of a state that some addresses mean, in the order of terraform state list.';
revoke all on function kilolock.find_resources(text, text[]) from public;
grant execute on function kilolock.find_resources(text, text[]) to kilolock_reader, kilolock_app;
