-- A text as a JSON string, escaped as Terraform does it.
create or replace function kilolock._write_string(p_text text)
  returns text
  language sql
  immutable
as $$
  select kilolock._escape_as_go(to_json(p_text)::text)
$$;

comment on function kilolock._write_string(text) is
  'A text as a JSON string, escaped as Terraform does it.';
revoke all on function kilolock._write_string(text) from public;
