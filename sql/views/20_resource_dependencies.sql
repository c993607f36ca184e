-- Who depends on whom, instance by instance.
--
-- Terraform records dependencies between blocks of the configuration; this view expands them. Within a module that has
-- keys an edge stays inside its instance: module.x["a"] depends on module.x["a"], never on module.x["b"].
create view kilolock.resource_dependencies as
select f.id as from_resource_id, t.id as to_resource_id
from kilolock.resources f
join kilolock.dependency_set_members m on m.dependency_set_id = f.dependency_set_id
join kilolock.resource_blocks b on b.config_id = m.config_id
join kilolock.resources t on t.block_id = b.id
where case
  when strpos(f.module_path, '[') = 0 or strpos(t.module_path, '[') = 0 then true
  else kilolock.same_module_instance(f.module_path, t.module_path)
end;

comment on view kilolock.resource_dependencies is
  'Edges between live instances: from_resource_id depends on to_resource_id.';
grant select on kilolock.resource_dependencies to kilolock_reader;
