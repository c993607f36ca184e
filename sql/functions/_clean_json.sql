-- Make a JSON text such that json functions and jsonb can read it.
--
-- PostgreSQL refuses \u0000, a surrogate without its other half, and numbers past numeric's range, which
-- Terraform may write. They become U+FFFD here: in what the query surface shows, never in the stored document.
-- Looks at whole tokens, so that the harmless \\u0000 and digits inside strings stay as they are.
create or replace function kilolock._clean_json(p_json text)
  returns text
  language sql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
  select string_agg(
           case
             when t.token[1] like '"%' and t.token[1] like '%\\u%' then
               regexp_replace(
                 regexp_replace(
                   regexp_replace(t.token[1], '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g'),
                   '(?<!\\)((?:\\\\)*)\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])', '\1\\ufffd', 'g'),
                 '(?<!\\u[dD][89abAB][0-9a-fA-F]{2})(?<!\\)((?:\\\\)*)\\u[dD][c-fC-F][0-9a-fA-F]{2}', '\1\\ufffd', 'g')
             when t.token[1] like '"%' then t.token[1]
             when t.token[1] ~ '[eE][+-]?0*[1-9][0-9]{3}' or t.token[1] ~ '^[-0-9]' and length(t.token[1]) > 16000
               then '"\ufffd"'
             else t.token[1]
           end, '' order by t.n)
  from regexp_matches(p_json, '"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|[^"0-9-]+|.', 'g') with ordinality t(token, n)
$$;

comment on function kilolock._clean_json(text) is
  'JSON text with what PostgreSQL cannot decode replaced by U+FFFD.';
revoke all on function kilolock._clean_json(text) from public;
