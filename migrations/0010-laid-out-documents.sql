-- Versions whose layout an edit of single resources has proven, so that the next edit need not do it again.

set local role kilolock_owner;

alter table kilolock.version_documents add column is_laid_out boolean not null default false;
comment on column kilolock.version_documents.is_laid_out is
  'Whether its document is known to be in Terraform''s layout: an edit of it proved that. False where nobody looked.';
