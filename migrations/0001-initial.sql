-- Roles are shared by the whole cluster, so each is made only where it is missing.
--
-- kilolock_owner         owns every object; nobody logs in as it
-- kilolock_app           what a kld login must be a member of: may call the API functions, sees no table
-- kilolock_reader        reads the query surface, all but the documents themselves
-- kilolock_state_reader  a reader that may see raw_state too, as whoever may GET the state
do $$
declare
  v_role text;
begin
  foreach v_role in array array['kilolock_owner', 'kilolock_app', 'kilolock_reader', 'kilolock_state_reader'] loop
    if not exists (select from pg_catalog.pg_roles r where r.rolname = v_role) then
      begin
        execute format('create role %I nologin', v_role);
      exception when duplicate_object or unique_violation then
        null;  -- another database of this cluster was migrated at the same moment
      end;
    end if;
    -- A login that is no superuser must be able to act as the roles it hands objects to.
    if not (select r.rolsuper from pg_catalog.pg_roles r where r.rolname = current_user) then
      execute format('grant %I to current_user', v_role);
    end if;
  end loop;
  if not pg_catalog.pg_has_role('kilolock_state_reader', 'kilolock_reader', 'member') then
    grant kilolock_reader to kilolock_state_reader;
  end if;
  if not pg_catalog.pg_has_role('kilolock_owner', 'kilolock_state_reader', 'member') then
    grant kilolock_state_reader to kilolock_owner;
  end if;
end;
$$;

create schema if not exists kilolock authorization kilolock_owner;
grant usage on schema kilolock to kilolock_app, kilolock_reader;
-- Where a state lives: workspace, then environment. The short URL form means the default environment.

set local role kilolock_owner;

create table kilolock.workspaces (
  id bigint generated always as identity,
  public_id text not null,
  name text not null,
  created_at timestamptz not null default now(),
  constraint workspaces_pkey primary key (id),
  constraint workspaces_public_id_key unique (public_id),
  constraint workspaces_public_id_not_empty check (public_id <> '')
);
comment on table kilolock.workspaces is 'A tenant''s workspace; public_id is the first part of the long state URL.';

create table kilolock.environments (
  id bigint generated always as identity,
  workspace_id bigint not null,
  public_id text not null,
  name text not null,
  created_at timestamptz not null default now(),
  constraint environments_pkey primary key (id),
  constraint environments_public_id_key unique (public_id),
  constraint environments_public_id_not_empty check (public_id <> ''),
  constraint environments_workspace_id_fkey foreign key (workspace_id) references kilolock.workspaces (id)
);
comment on table kilolock.environments is
  'An environment of a workspace; public_id is the second part of the long state URL.';
create index environments_workspace_id_idx on kilolock.environments (workspace_id);

insert into kilolock.workspaces (public_id, name) values ('ws_default', 'default');
insert into kilolock.environments (workspace_id, public_id, name)
select w.id, 'env_default', 'default' from kilolock.workspaces w;
-- States, the documents of their versions, and who holds them.

set local role kilolock_owner;

create table kilolock.states (
  id bigint generated always as identity,
  environment_id bigint not null,
  name text not null,
  current_version_id bigint,
  head_version bigint not null default 0,
  serial numeric(20, 0),
  lineage text,
  terraform_version text,
  resource_count integer not null default 0,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint states_pkey primary key (id),
  constraint states_environment_id_name_key unique (environment_id, name),
  constraint states_current_version_id_key unique (current_version_id),
  constraint states_name_size check (octet_length(name) between 1 and 255),
  constraint states_environment_id_fkey foreign key (environment_id) references kilolock.environments (id)
);
comment on table kilolock.states is
  'One row a state. current_version_id is null before the first write and after a DELETE.';
comment on column kilolock.states.current_version_id is
  'Id of the head in state_versions; the same for every head of this state, so that live rows need no update.';
comment on column kilolock.states.head_version is 'Highest version ever given; versions are never given twice.';
comment on column kilolock.states.serial is 'Serial of the head document; numeric since Terraform counts in 64 bits unsigned.';
comment on column kilolock.states.resource_count is 'Live instances of the head, deposed objects and data sources included.';

-- Apart from states, so that readers of states never see it.
create table kilolock.state_salts (
  state_id bigint not null,
  salt text not null default (gen_random_uuid()::text || gen_random_uuid()::text),
  constraint state_salts_pkey primary key (state_id),
  constraint state_salts_state_id_fkey foreign key (state_id) references kilolock.states (id) on delete cascade
);
comment on table kilolock.state_salts is
  'Secret prefix of every digest of a state: without it a digest of a secret could be guessed offline.';

create table kilolock.document_chunks (
  id bigint generated always as identity,
  state_id bigint not null,
  digest bytea not null,
  data text not null,
  constraint document_chunks_pkey primary key (id),
  constraint document_chunks_state_id_digest_key unique (state_id, digest),
  constraint document_chunks_state_id_fkey foreign key (state_id) references kilolock.states (id) on delete cascade
);
comment on table kilolock.document_chunks is
  'Pieces of documents, each stored once a state; joined in the order of version_documents.chunk_ids they are the document.';

create table kilolock.version_documents (
  id bigint generated by default as identity,
  state_id bigint not null,
  version bigint not null,
  serial numeric(20, 0) not null,
  lineage text not null,
  terraform_version text not null,
  raw_size bigint not null,
  raw_md5 text not null,
  resource_count integer not null,
  created_count integer not null,
  updated_count integer not null,
  deleted_count integer not null,
  encrypted boolean not null,
  source text not null,
  actor text not null,
  created_at timestamptz not null default clock_timestamp(),
  chunk_ids bigint[] not null,
  rows_digest bytea,
  constraint version_documents_pkey primary key (state_id, version),
  constraint version_documents_id_key unique (id),
  constraint version_documents_source_known
    check (source in ('apply', 'import', 'refresh', 'rollback', 'state-engine', 'restore')),
  constraint version_documents_state_id_fkey foreign key (state_id) references kilolock.states (id) on delete cascade
);
comment on table kilolock.version_documents is
  'One row a version; shown as state_versions. (state_id, version) is its durable name: the head''s id passes on to the next head.';

comment on column kilolock.version_documents.rows_digest is
  'Salted SHA-256 of all but the first lines of the short form: the same again means that no row changes.';

create table kilolock.state_locks (
  state_id bigint not null,
  lock_id text not null,
  operation text not null,
  info text not null,
  who text not null,
  version text not null,
  created timestamptz,
  path text not null,
  acquired_at timestamptz not null default clock_timestamp(),
  lock_info text not null,
  constraint state_locks_pkey primary key (state_id),
  constraint state_locks_lock_id_not_empty check (lock_id <> ''),
  constraint state_locks_state_id_fkey foreign key (state_id) references kilolock.states (id) on delete cascade
);
comment on table kilolock.state_locks is 'The Terraform lock of a state, one row while it is held.';
comment on column kilolock.state_locks.lock_info is 'The LockInfo as the holder sent it, returned byte for byte to whoever is refused.';
comment on column kilolock.state_locks.created is 'When the holder says it made the lock; acquired_at is this database''s own time.';

create table kilolock.events (
  id bigint generated always as identity,
  state_id bigint not null,
  kind text not null,
  actor text not null,
  payload jsonb not null,
  created_at timestamptz not null default clock_timestamp(),
  constraint events_pkey primary key (id),
  constraint events_kind_known check (kind in (
    'state_write', 'state_delete', 'lock_acquire', 'lock_release', 'lock_force_release')),
  constraint events_state_id_fkey foreign key (state_id) references kilolock.states (id) on delete cascade
);
comment on table kilolock.events is 'What happened to a state, by whom; written in the transaction of the thing itself.';
create index events_state_id_created_at_idx on kilolock.events (state_id, created_at);
-- The rows of a document: live resources, their past, what they depend on, and outputs.
--
-- No btree index on anything that a document names: an entry holds 2,704 bytes, a name may be longer.
-- resources and past_resources have no foreign keys: only write functions fill them, under the lock of the
-- states row, and a check of each of 100,000 rows is a third of the time of a first write.

set local role kilolock_owner;

create table kilolock.resource_blocks (
  id uuid not null,
  state_id bigint not null,
  module_path text not null,
  mode text not null,
  type text not null,
  name text not null,
  config_address text not null,
  config_id uuid not null,
  constraint resource_blocks_pkey primary key (id),
  constraint resource_blocks_state_id_fkey foreign key (state_id) references kilolock.states (id) on delete cascade
);
comment on table kilolock.resource_blocks is
  'A resource entry of the document: one module instance''s block, whose instances are rows of resources. Never removed: it costs little and the past names it.';
comment on column kilolock.resource_blocks.config_address is 'The address in the configuration, without any keys, as dependencies name it.';
comment on column kilolock.resource_blocks.config_id is 'Digest of config_address within the state, the short form that joins use.';
create index resource_blocks_config_id_idx on kilolock.resource_blocks (config_id);
create index resource_blocks_state_id_idx on kilolock.resource_blocks (state_id);

create table kilolock.dependency_sets (
  id uuid not null,
  state_id bigint not null,
  addresses text[] not null,
  constraint dependency_sets_pkey primary key (id),
  constraint dependency_sets_state_id_fkey foreign key (state_id) references kilolock.states (id) on delete cascade
);
comment on table kilolock.dependency_sets is
  'A distinct list of dependencies, stored once however many instances share it.';

create table kilolock.dependency_set_members (
  dependency_set_id uuid not null,
  config_id uuid not null,
  constraint dependency_set_members_pkey primary key (dependency_set_id, config_id),
  constraint dependency_set_members_dependency_set_id_fkey
    foreign key (dependency_set_id) references kilolock.dependency_sets (id) on delete cascade
);
comment on table kilolock.dependency_set_members is 'The blocks that a dependency set names, by resource_blocks.config_id.';
create index dependency_set_members_config_id_idx on kilolock.dependency_set_members (config_id);

create table kilolock.block_dependency_sets (
  dependency_set_id uuid not null,
  block_id uuid not null,
  constraint block_dependency_sets_pkey primary key (dependency_set_id, block_id),
  constraint block_dependency_sets_block_id_fkey
    foreign key (block_id) references kilolock.resource_blocks (id) on delete cascade
);
comment on table kilolock.block_dependency_sets is
  'Which blocks have, or once had, instances with a dependency set: the edges that blast_radius walks.';
create index block_dependency_sets_block_id_idx on kilolock.block_dependency_sets (block_id);

-- Fixed widths first, then what inventories group by: a row is unpacked only as far as a query looks.
create table kilolock.resources (
  id bigint generated by default as identity,
  state_id bigint not null,
  state_version_id bigint not null,
  since_version bigint not null,
  schema_version bigint not null,
  changed_at timestamptz not null default clock_timestamp(),
  block_id uuid not null,
  type text not null,
  module_path text not null,
  mode text not null,
  address text not null,
  name text not null,
  dependency_set_id uuid,
  index_key jsonb,
  deposed_key text,
  status text not null,
  provider text not null,
  last_change text not null,
  created_serial numeric(20, 0) not null,
  changed_serial numeric(20, 0) not null,
  sensitive_paths jsonb not null,
  instance_hash bytea not null,
  rest_digest bytea,
  attributes jsonb,
  constraint resources_pkey primary key (id),
  constraint resources_last_change_known check (last_change in ('create', 'update', 'move')),
  constraint resources_mode_known check (mode in ('managed', 'data')),
  constraint resources_status_known check (status in ('ready', 'tainted'))
);
comment on table kilolock.resources is 'Live resource instances of every state''s head, one row an object; deposed objects have a deposed_key.';
comment on column kilolock.resources.id is 'Stays with the address for good, and follows it through a state mv.';
comment on column kilolock.resources.state_version_id is 'states.current_version_id of its state.';
comment on column kilolock.resources.since_version is 'Version in which it became what it is now.';
comment on column kilolock.resources.attributes is
  'Attributes as the provider last reported them; sensitive ones as {"sensitive": "<salted digest>"}.';
comment on column kilolock.resources.sensitive_paths is 'sensitive_attributes of the instance, as Terraform wrote them.';
comment on column kilolock.resources.instance_hash is 'Salted SHA-256 of the instance''s text: the same text needs no second look.';
comment on column kilolock.resources.rest_digest is 'Salted SHA-256 of what has no column: private data, identity and the like.';
create index resources_state_version_id_idx on kilolock.resources (state_version_id);
create index resources_block_id_dependency_set_id_idx on kilolock.resources (block_id, dependency_set_id);
create index resources_dependency_set_id_idx on kilolock.resources (dependency_set_id);
create index resources_address_idx on kilolock.resources using hash (address);

create table kilolock.past_resources (
  resource_id bigint not null,
  state_id bigint not null,
  from_version bigint not null,
  until_version bigint not null,
  block_id uuid not null,
  dependency_set_id uuid,
  began_as text not null,
  ended_as text not null,
  created_serial numeric(20, 0) not null,
  changed_serial numeric(20, 0) not null,
  changed_at timestamptz not null,
  schema_version bigint not null,
  mode text not null,
  type text not null,
  module_path text not null,
  address text not null,
  name text not null,
  index_key jsonb,
  deposed_key text,
  status text not null,
  provider text not null,
  sensitive_paths jsonb not null,
  attributes jsonb,
  constraint past_resources_pkey primary key (resource_id, until_version),
  constraint past_resources_began_as_known check (began_as in ('create', 'update', 'move')),
  constraint past_resources_ended_as_known check (ended_as in ('update', 'move', 'delete')),
  constraint past_resources_interval check (from_version < until_version)
);
comment on table kilolock.past_resources is
  'What resources were: one row for each stretch of versions [from_version, until_version) that is over. Shown with the live rows as resource_history.';
create index past_resources_state_id_until_version_idx on kilolock.past_resources (state_id, until_version);
create index past_resources_address_idx on kilolock.past_resources using hash (address);

create table kilolock.outputs (
  state_id bigint not null,
  name text not null,
  value jsonb,
  type jsonb,
  sensitive boolean not null,
  changed_serial numeric(20, 0) not null,
  constraint outputs_state_id_fkey foreign key (state_id) references kilolock.states (id) on delete cascade
);
comment on table kilolock.outputs is 'Root module outputs of every head; a sensitive value is {"sensitive": "<salted digest>"}.';
create unique index outputs_state_id_name_idx on kilolock.outputs (state_id, md5(name));
