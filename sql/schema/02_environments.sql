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
