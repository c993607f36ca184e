-- A value of the query surface as kl shows it: "(sensitive)" stands where a secret's digest did, and for all of it where it is
-- sensitive as a whole.
create or replace function kilolock.hide_digests(p_value jsonb, p_sensitive boolean default false)
  returns jsonb
  language sql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
  select case
    when p_sensitive then case when p_value is not null then '"(sensitive)"'::jsonb end
    when strpos(p_value::text, '{"sensitive": "sha256:') > 0 then
      regexp_replace(p_value::text, '\{"sensitive": "sha256:[^"\\]*"\}', '"(sensitive)"', 'g')::jsonb
    else p_value
  end
$$;

comment on function kilolock.hide_digests(jsonb, boolean) is
  'A value with "(sensitive)" in the place of every digest.';
revoke all on function kilolock.hide_digests(jsonb, boolean) from public;
grant execute on function kilolock.hide_digests(jsonb, boolean) to kilolock_reader, kilolock_app;
