-- When a state was deleted while this version was its head; null where the next version followed, or none did.
create or replace function kilolock._deleted_at(p_state_id bigint, p_version bigint)
  returns timestamptz
  language sql
  stable
as $$
  select min(e.created_at)
  from kilolock.events e
  where e.state_id = p_state_id and e.kind = 'state_delete' and (e.payload ->> 'version')::bigint = p_version
$$;

comment on function kilolock._deleted_at(bigint, bigint) is
  'When a state was deleted while a version was its head.';
revoke all on function kilolock._deleted_at(bigint, bigint) from public;
