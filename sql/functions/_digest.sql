-- What stands for a secret in the query surface: it shows that a value changed, and nothing else.
create or replace function kilolock._digest(p_value jsonb, p_salt text)
  returns jsonb
  language sql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
  select case
    when kilolock._is_digest(p_value) then p_value
    else jsonb_build_object('sensitive', 'sha256:' || encode(sha256(convert_to(p_salt || p_value::text, 'UTF8')), 'hex'))
  end
$$;

comment on function kilolock._digest(jsonb, text) is
  '{"sensitive": "<salted digest>"} of a value.';
revoke all on function kilolock._digest(jsonb, text) from public;
