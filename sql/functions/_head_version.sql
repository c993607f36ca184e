-- The version that a GET answers; 0 where there is none, before the first write and after a DELETE.
create or replace function kilolock._head_version(p_state kilolock.states)
  returns bigint
  language sql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
  select case when p_state.current_version_id is null then 0 else p_state.head_version end
$$;

comment on function kilolock._head_version(kilolock.states) is
  'The version of the head, 0 where there is none.';
revoke all on function kilolock._head_version(kilolock.states) from public;
