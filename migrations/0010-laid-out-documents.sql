-- Which documents a delta can be written into chunk by chunk. A version that is there already is gone through as a whole;
-- the one that a write makes of it says more.

set local role kilolock_owner;

alter table kilolock.version_documents add column is_laid_out boolean not null default false;
comment on column kilolock.version_documents.is_laid_out is
  'Whether its resources are written and sorted as Terraform does it, so that a delta finds its place chunk by chunk. False also where nobody looked: before migration 0010.';
