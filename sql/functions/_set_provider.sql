-- The first lines of a block with another provider; OpenTofu leaves it out where each instance has its own.
create or replace function kilolock._set_provider(p_header text, p_provider text)
  returns text
  language sql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
  select regexp_replace(p_header, '\n      "provider": "(?:[^"\\]|\\.)*",', '')
    || case when p_provider <> '' then e'\n      "provider": ' || kilolock._write_string(p_provider) || ',' else '' end
$$;

comment on function kilolock._set_provider(text, text) is
  'The first lines of a block with another provider.';
revoke all on function kilolock._set_provider(text, text) from public;
