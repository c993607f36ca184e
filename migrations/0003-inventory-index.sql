-- Inventories by type and by module come from an index, and soon after a large write.

set local role kilolock_owner;

create index resources_inventory_idx on kilolock.resources (state_version_id, type, module_path);
drop index kilolock.resources_state_version_id_idx;
alter table kilolock.resources set (
  autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_scale_factor = 0.02);
