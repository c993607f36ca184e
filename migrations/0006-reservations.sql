-- Apply runs, reservations and their queue.

set local role kilolock_owner;

create table kilolock.apply_runs (
  id text not null default ('run_' || substr(replace(gen_random_uuid()::text, '-', ''), 17)),
  state_id bigint not null,
  status text not null default 'running',
  holder text not null,
  host text not null,
  path text not null,
  summary jsonb not null,
  base_version bigint not null,
  verified_version bigint,
  committed_version bigint,
  fencing bigint,
  lease_seconds integer not null,
  started_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null,
  finished_at timestamptz,
  message text,
  constraint apply_runs_pkey primary key (id),
  constraint apply_runs_status_known check (status in ('running', 'committed', 'failed', 'aborted')),
  constraint apply_runs_finished_once check ((status = 'running') = (finished_at is null)),
  constraint apply_runs_state_id_fkey foreign key (state_id) references kilolock.states (id) on delete cascade
);
comment on table kilolock.apply_runs is
  'One row for each kl apply on a state: who, where, how it ended. A running one is over when expires_at has passed.';
comment on column kilolock.apply_runs.path is 'The folder on host in which it works.';
comment on column kilolock.apply_runs.base_version is 'The version that it was planned on; 0 before the first.';
comment on column kilolock.apply_runs.verified_version is
  'The head when it turned out that nothing of what the run holds has changed since base_version; null while something has.';
comment on column kilolock.apply_runs.committed_version is 'The last version that it wrote; apply_run_commits has all.';
comment on column kilolock.apply_runs.fencing is
  'The number of its last grant, higher than those of all grants before; a commit has to name it.';
comment on column kilolock.apply_runs.expires_at is 'Until when it is believed to be alive; its client moves this on.';
create index apply_runs_state_id_running_idx on kilolock.apply_runs (state_id) where status = 'running';
create index apply_runs_state_id_started_at_idx on kilolock.apply_runs (state_id, started_at);

create sequence kilolock.apply_runs_fencing_seq owned by kilolock.apply_runs.fencing;

create table kilolock.apply_run_commits (
  apply_run_id text not null,
  number bigint not null,
  delta_digest bytea not null,
  fencing bigint not null,
  version bigint not null,
  answer jsonb not null,
  committed_at timestamptz not null default clock_timestamp(),
  constraint apply_run_commits_pkey primary key (apply_run_id, number),
  constraint apply_run_commits_apply_run_id_fkey
    foreign key (apply_run_id) references kilolock.apply_runs (id) on delete cascade
);
comment on table kilolock.apply_run_commits is
  'What apply runs wrote. The client numbers its commits: one that comes again, since its answer was lost, is answered from here.';

create table kilolock.reservation_requests (
  id bigint generated always as identity,
  state_id bigint not null,
  apply_run_id text,
  lock_id text,
  holder text not null,
  attempts bigint not null default 1,
  waiting_since timestamptz not null default clock_timestamp(),
  granted_at timestamptz,
  expires_at timestamptz not null,
  writes text[] not null default '{}',
  reads text[] not null default '{}',
  write_paths text[] not null default '{}',
  read_paths text[] not null default '{}',
  constraint reservation_requests_pkey primary key (id),
  constraint reservation_requests_apply_run_id_key unique (apply_run_id),
  constraint reservation_requests_one_kind check ((apply_run_id is null) <> (lock_id is null)),
  constraint reservation_requests_locks_wait check (lock_id is null or granted_at is null),
  constraint reservation_requests_state_id_fkey
    foreign key (state_id) references kilolock.states (id) on delete cascade,
  constraint reservation_requests_apply_run_id_fkey
    foreign key (apply_run_id) references kilolock.apply_runs (id) on delete cascade
);
comment on table kilolock.reservation_requests is
  'Who holds or waits for addresses of a state, and which LOCK waits for all of it; ids are the order of arrival. Shown as resource_reservations and reservation_queue.';
comment on column kilolock.reservation_requests.attempts is
  'How often it was asked for. A LOCK counts as waiting from the second time: the first may have been the last.';
comment on column kilolock.reservation_requests.expires_at is
  'When a waiting request loses its place unless it is asked for again; a granted one lives as long as its run.';
comment on column kilolock.reservation_requests.write_paths is
  'writes and all that is above them: an address stands here exactly if it covers one of writes.';
comment on column kilolock.reservation_requests.read_paths is 'The same for reads.';
create index reservation_requests_state_id_idx on kilolock.reservation_requests (state_id);
