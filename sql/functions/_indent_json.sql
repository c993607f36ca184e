-- A JSON text in Terraform's layout: two spaces a level, one member a line. Every token stays as it is, byte for byte.
--
-- p_depth  how many levels deep the value stands; its first line is not indented
create or replace function kilolock._indent_json(p_json text, p_depth integer)
  returns text
  language sql
  immutable
as $$
  with token as (
    select m.n, m.token[1] as token,
           sum(case when m.token[1] in ('{', '[') then 1 when m.token[1] in ('}', ']') then -1 else 0 end) over following as depth,
           lag(m.token[1]) over following as before, lead(m.token[1]) over following as after
    from regexp_matches(p_json, '"(?:[^"\\]|\\.)*"|[][{}:,]|[^][{}:,"[:space:]]+', 'g') with ordinality m(token, n)
    window following as (order by m.n)
  )
  select string_agg(case
           when t.token = ':' then ': '
           when t.token = ',' or t.token in ('{', '[') and t.after not in ('}', ']')
             then t.token || e'\n' || repeat('  ', p_depth + t.depth::integer)
           when t.token in ('}', ']') and t.before not in ('{', '[')
             then e'\n' || repeat('  ', p_depth + t.depth::integer) || t.token
           else t.token
         end, '' order by t.n)
  from token t
$$;

comment on function kilolock._indent_json(text, integer) is
  'A JSON text in Terraform''s layout, every token as it was.';
revoke all on function kilolock._indent_json(text, integer) from public;
