-- Runs of kl refresh, and what finds the versions that they wrote.

set local role kilolock_owner;

create table kilolock.refresh_runs (
  id bigint generated always as identity,
  state_id bigint not null,
  lock_id text,
  who text not null,
  status text not null default 'running',
  base_version bigint not null,
  version bigint,
  drifted_count integer not null default 0,
  message text,
  started_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz,
  constraint refresh_runs_pkey primary key (id),
  constraint refresh_runs_state_id_lock_id_key unique (state_id, lock_id),
  constraint refresh_runs_state_id_version_key unique (state_id, version),
  constraint refresh_runs_status_known check (status in ('running', 'clean', 'drifted', 'failed')),
  constraint refresh_runs_version_of_drift check (status <> 'drifted' or version is not null),
  constraint refresh_runs_end_of_running check ((finished_at is null) = (status = 'running')),
  constraint refresh_runs_lock_id_size check (octet_length(lock_id) between 1 and 255),
  constraint refresh_runs_state_id_fkey foreign key (state_id) references kilolock.states (id) on delete cascade
);
comment on table kilolock.refresh_runs is
  'Refreshes: one row each time somebody looked for drift, with what came of it.';
comment on column kilolock.refresh_runs.lock_id is 'The Terraform lock it holds while it runs, and its owner''s name for the run; null where a refreshed document was imported.';
comment on column kilolock.refresh_runs.base_version is 'The head that was refreshed.';
comment on column kilolock.refresh_runs.version is 'The version it wrote; null where there was nothing to write.';
comment on column kilolock.refresh_runs.drifted_count is 'Resources that differ from the base version, those that are gone included.';
comment on column kilolock.refresh_runs.message is 'Why it failed.';

create index version_documents_refreshed_idx on kilolock.version_documents (state_id, version) where source = 'refresh';
