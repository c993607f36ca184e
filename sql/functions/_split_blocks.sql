-- The blocks of a document's resources in Terraform's layout; p_body is what stands between the brackets of "resources".
--
-- header is a block's text before its instances, list the instances with their brackets. Where header and list are JSON
-- by themselves the cuts stand where they should: in another layout that fails, or is_laid_out says so.
create or replace function kilolock._split_blocks(p_body text)
  returns table (n bigint, text text, header text, list text, module text, mode text, type text, name text, provider text,
    is_laid_out boolean)
  language sql
  immutable
as $$
  select b.n, b.text, c.header, c.list, coalesce(kilolock._read_string(h.j ->> 'module'), ''), h.j ->> 'mode',
         kilolock._read_string(h.j ->> 'type'), kilolock._read_string(h.j ->> 'name'),
         coalesce(kilolock._read_string(h.j ->> 'provider'), ''),
         d.has_ends and right(c.header, 1) = ',' and json_typeof(c.list::json) = 'array'
  from (
    -- Once, and not for each block.
    select substr(nullif(p_body, ''), 7, length(p_body) - 12) as blocks,
           starts_with(p_body, e'\n    {\n') and right(p_body, 6) = e'\n    }' as has_ends
    offset 0
  ) d
  cross join lateral string_to_table(d.blocks, e'\n    },\n    {') with ordinality b(text, n)
  cross join lateral (select strpos(b.text, e'\n      "instances": [') as cut offset 0) p
  cross join lateral (select left(b.text, p.cut - 1) as header, substr(b.text, p.cut + 20) as list offset 0) c
  cross join lateral (select kilolock._hide_escapes('{' || rtrim(c.header, ',') || '}')::json as j offset 0) h
$$;

comment on function kilolock._split_blocks(text) is
  'The blocks of a document''s resources in Terraform''s layout.';
revoke all on function kilolock._split_blocks(text) from public;
