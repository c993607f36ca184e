-- Quotas: what they limit, what is counted against them, and events of what belongs to no single state.

set local role kilolock_owner;

alter table kilolock.states add column managed_count integer not null default 0;
alter table kilolock.states add column head_size bigint not null default 0;
comment on column kilolock.states.managed_count is
  'Live managed resources of the head, what quotas count: neither data sources nor deposed objects.';
comment on column kilolock.states.head_size is 'Bytes of the head document; 0 without a head.';

update kilolock.states s
set head_size = d.raw_size,
    managed_count = (
      select count(*) from kilolock.resources r
      where r.state_version_id = s.current_version_id and r.mode = 'managed' and r.deposed_key is null)
from kilolock.version_documents d
where d.id = s.current_version_id;

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

alter table kilolock.events alter column state_id drop not null;
comment on column kilolock.events.state_id is 'Null for what happened to an environment or a workspace; the payload names it.';
