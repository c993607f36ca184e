-- Whether a value of the query surface is what _digest put in the place of a secret.
create or replace function kilolock._is_digest(p_value jsonb)
  returns boolean
  language sql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
  select jsonb_typeof(p_value) = 'object' and p_value ->> 'sensitive' like 'sha256:%'
    and p_value = jsonb_build_object('sensitive', p_value -> 'sensitive')
$$;

comment on function kilolock._is_digest(jsonb) is
  'Whether a value stands for a secret.';
revoke all on function kilolock._is_digest(jsonb) from public;
