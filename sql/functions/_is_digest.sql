-- Whether a value is what _digest puts in the place of a secret.
create or replace function kilolock._is_digest(p_value jsonb)
  returns boolean
  language sql
  immutable
as $$
  select coalesce(case when jsonb_typeof(p_value) = 'object' and p_value ? 'sensitive' then
    p_value = jsonb_build_object('sensitive', p_value -> 'sensitive') and p_value ->> 'sensitive' like 'sha256:%' end, false)
$$;

comment on function kilolock._is_digest(jsonb) is
  'Whether a value is {"sensitive": "<salted digest>"}.';
revoke all on function kilolock._is_digest(jsonb) from public;
