-- Limits of what a state, an environment or a workspace may hold. What counts against them stands in states.

set local role kilolock_owner;

create table kilolock.quotas (
  id bigint generated always as identity,
  workspace_id bigint,
  environment_id bigint,
  state_id bigint,
  resources_soft bigint,
  resources_hard bigint,
  bytes_soft bigint,
  bytes_hard bigint,
  set_by text not null,
  set_at timestamptz not null default clock_timestamp(),
  constraint quotas_pkey primary key (id),
  constraint quotas_workspace_id_key unique (workspace_id),
  constraint quotas_environment_id_key unique (environment_id),
  constraint quotas_state_id_key unique (state_id),
  constraint quotas_one_scope check (num_nonnulls(workspace_id, environment_id, state_id) = 1),
  constraint quotas_some_limit check (num_nonnulls(resources_soft, resources_hard, bytes_soft, bytes_hard) > 0),
  constraint quotas_not_negative check (least(resources_soft, resources_hard, bytes_soft, bytes_hard) >= 0),
  constraint quotas_soft_below_hard check (resources_soft <= resources_hard and bytes_soft <= bytes_hard),
  constraint quotas_workspace_id_fkey foreign key (workspace_id) references kilolock.workspaces (id) on delete cascade,
  constraint quotas_environment_id_fkey foreign key (environment_id) references kilolock.environments (id) on delete cascade,
  constraint quotas_state_id_fkey foreign key (state_id) references kilolock.states (id) on delete cascade
);
comment on table kilolock.quotas is
  'Limits of a workspace, an environment or a state; all that apply to a state hold. Null is no limit. quota_usage shows them by name.';
comment on column kilolock.quotas.resources_soft is 'Managed resources beyond which kl warns.';
comment on column kilolock.quotas.resources_hard is 'Managed resources beyond which no write goes.';
comment on column kilolock.quotas.bytes_soft is 'Bytes of state documents beyond which kl warns.';
comment on column kilolock.quotas.bytes_hard is 'Bytes of state documents beyond which no write goes.';
