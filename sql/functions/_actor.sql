-- Who acts: the user that signed in, else whom the request names, else nobody known.
create or replace function kilolock._actor(p_request jsonb, p_actor text)
  returns text
  language sql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
  select coalesce(nullif(p_actor, ''), nullif(left(p_request ->> 'who', 255), ''), 'anonymous')
$$;

comment on function kilolock._actor(jsonb, text) is
  'Who acts, for events and versions.';
revoke all on function kilolock._actor(jsonb, text) from public;
