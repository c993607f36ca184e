-- Event kinds of the commands that change a state without Terraform.

set local role kilolock_owner;

alter table kilolock.events drop constraint events_kind_known;
alter table kilolock.events add constraint events_kind_known check (kind in (
  'state_write', 'state_delete', 'lock_acquire', 'lock_release', 'lock_force_release', 'tag_set', 'tag_unset',
  'version_prune', 'version_purge', 'archive_import', 'run_begin', 'run_finish', 'run_abort', 'quota_set'));
