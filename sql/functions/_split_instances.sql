-- The instances of a block in Terraform's layout; p_list has them with their brackets (_split_blocks).
--
-- content is what stands between the braces of an instance, without the last line break.
create or replace function kilolock._split_instances(p_list text)
  returns table (n bigint, content text, index_key jsonb, deposed text, is_laid_out boolean)
  language sql
  immutable
as $$
  select i.n, i.content, kilolock._read_json(nullif(kilolock._show_escapes((o.j -> 'index_key')::text), 'null'), true),
         coalesce(kilolock._read_string(o.j ->> 'deposed'), ''), l.has_ends and json_typeof(o.j) = 'object'
  from (
    -- Once, and not for each instance: a list may have megabytes.
    select substr(nullif(p_list, '[]'), 12, greatest(length(p_list) - 29, 0)) as contents,
           starts_with(p_list, e'[\n        {') and right(p_list, 18) = e'\n        }\n      ]' as has_ends
    offset 0
  ) l
  cross join lateral string_to_table(l.contents, e'\n        },\n        {') with ordinality i(content, n)
  cross join lateral (select kilolock._hide_escapes('{' || i.content || '}')::json as j offset 0) o
$$;

comment on function kilolock._split_instances(text) is
  'The instances of a block in Terraform''s layout.';
revoke all on function kilolock._split_instances(text) from public;
