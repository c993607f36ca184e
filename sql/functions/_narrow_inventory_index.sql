-- Make room for a type or module path that no btree entry holds: the inventory index gives way, for good, to one without names.
--
-- An entry holds 2,704 bytes, a name of Terraform any number. Names of that size are nobody's habit, so inventories are
-- fast for all but a database that has met one; there they read the rows.
--
-- Answers false when it had given way before.
--
-- Locks   resources, against every other use, until the transaction ends
create or replace function kilolock._narrow_inventory_index()
  returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
begin
  if to_regclass('kilolock.resources_inventory_idx') is null then
    return false;
  end if;
  lock table kilolock.resources in access exclusive mode;
  drop index if exists kilolock.resources_inventory_idx;
  create index if not exists resources_state_version_id_idx on kilolock.resources (state_version_id);
  return true;
end;
$$;

comment on function kilolock._narrow_inventory_index() is
  'Replace the inventory index by one without names.';
revoke all on function kilolock._narrow_inventory_index() from public;
