-- LockInfo as Terraform reads it from a 423, for holders that never sent one.
create or replace function kilolock._lock_info(
  p_id text, p_operation text, p_info text, p_who text, p_created timestamptz, p_path text
)
  returns text
  language sql
  stable
  set search_path = pg_catalog, pg_temp
as $$
  select json_build_object('ID', p_id, 'Operation', p_operation, 'Info', p_info, 'Who', p_who, 'Version', '',
    'Created', to_char(p_created at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), 'Path', p_path)::text
$$;

comment on function kilolock._lock_info(text, text, text, text, timestamptz, text) is
  'LockInfo JSON for a 423.';
revoke all on function kilolock._lock_info(text, text, text, text, timestamptz, text) from public;
