-- The members of a JSON object in order, each once: where a key stands twice, the last counts, as for Terraform.
--
-- p_object has its escapes hidden (_hide_escapes), and so have the answers.
create or replace function kilolock._members(p_object json)
  returns table (n bigint, key text, value text)
  language sql
  immutable
as $$
  select m.n, m.key, m.value
  from (
    select e.n, e.key, e.value::text as value,
           row_number() over (partition by kilolock._read_string(e.key) order by e.n desc) as nth
    from json_each(p_object) with ordinality e(key, value, n)
  ) m
  where m.nth = 1
$$;

comment on function kilolock._members(json) is
  'The members of a JSON object in order, the last of those with the same key.';
revoke all on function kilolock._members(json) from public;
