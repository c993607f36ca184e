-- A text as a JSON string, escaped as Terraform does it: Go hides what HTML or JavaScript could misread.
create or replace function kilolock._write_string(p_text text)
  returns text
  language sql
  immutable
as $$
  select replace(replace(replace(replace(replace(to_json(p_text)::text,
    '<', '\u003c'), '>', '\u003e'), '&', '\u0026'), u&'\2028', '\u2028'), u&'\2029', '\u2029')
$$;

comment on function kilolock._write_string(text) is
  'A text as a JSON string, escaped as Terraform does it.';
revoke all on function kilolock._write_string(text) from public;
