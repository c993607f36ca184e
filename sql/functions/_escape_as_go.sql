-- JSON text with the escapes that Go writes, and so Terraform: it hides what HTML or JavaScript could misread.
create or replace function kilolock._escape_as_go(p_json text)
  returns text
  language sql
  immutable
as $$
  select replace(replace(replace(replace(replace(p_json,
    '<', '\u003c'), '>', '\u003e'), '&', '\u0026'), u&'\2028', '\u2028'), u&'\2029', '\u2029')
$$;

comment on function kilolock._escape_as_go(text) is
  'JSON text with the escapes that Terraform writes.';
revoke all on function kilolock._escape_as_go(text) from public;
