-- A JSON text as jsonb; what jsonb cannot hold becomes U+FFFD where p_clean says that there is something.
create or replace function kilolock._read_json(p_json text, p_clean boolean)
  returns jsonb
  language sql
  immutable
as $$
  select case
    when p_clean and (strpos(p_json, '\u') > 0 or octet_length(p_json) > 16000 or p_json ~ '[eE][+-]?[0-9]{4}') then kilolock._clean_json(p_json)
    else p_json
  end::jsonb
$$;

comment on function kilolock._read_json(text, boolean) is 'A JSON text as jsonb, cleaned where asked for.';
revoke all on function kilolock._read_json(text, boolean) from public;
