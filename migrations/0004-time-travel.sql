-- Tags, and versions whose documents were removed.

set local role kilolock_owner;

alter table kilolock.version_documents add column pruned_at timestamptz;
comment on column kilolock.version_documents.pruned_at is
  'When its document was removed; the row stays to say who wrote the version.';

create table kilolock.tags (
  state_id bigint not null,
  name text not null,
  version bigint not null,
  actor text not null,
  created_at timestamptz not null default clock_timestamp(),
  constraint tags_pkey primary key (state_id, name),
  constraint tags_name_size check (octet_length(name) between 1 and 255),
  constraint tags_state_id_version_fkey foreign key (state_id, version)
    references kilolock.version_documents (state_id, version) on delete cascade
);
comment on table kilolock.tags is 'Names for versions; a tagged version is never pruned.';
comment on column kilolock.tags.actor is 'Who set it, at created_at.';
create index tags_state_id_version_idx on kilolock.tags (state_id, version);
