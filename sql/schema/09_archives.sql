-- Where an archive waits while it is imported.

set local role kilolock_owner;

-- Unlogged, since the rows never outlive the transaction that brings them.
create unlogged table kilolock.archive_records (
  archive_id uuid not null,
  n bigint not null,
  kind text not null,
  data bytea not null,
  constraint archive_records_pkey primary key (archive_id, n)
);
comment on table kilolock.archive_records is
  'The records of an archive while import_archive replays them; always empty between transactions.';
-- Documents come as small pieces that are read a few times and then gone: packing them would only cost time.
alter table kilolock.archive_records alter column data set storage external;
