-- The tables of the query surface; the views grant themselves. Documents, salts and installed_sql stay out.
grant select on kilolock.workspaces, kilolock.environments, kilolock.states, kilolock.tags, kilolock.state_locks, kilolock.events,
  kilolock.resources, kilolock.past_resources, kilolock.outputs, kilolock.past_outputs, kilolock.resource_blocks, kilolock.dependency_sets,
  kilolock.dependency_set_members,
  kilolock.quotas
to kilolock_reader;
grant select on kilolock.refresh_runs to kilolock_reader;
grant select on kilolock.apply_runs, kilolock.apply_run_commits to kilolock_reader;
