-- Whether an address that a person gives means a resource: the instance itself, its whole block, or a module around it.
create or replace function kilolock._matches_address(
  p_wanted text, p_address text, p_module_path text, p_mode text, p_type text, p_name text
)
  returns boolean
  language sql
  immutable
as $$
  select p_address = p_wanted or p_module_path = p_wanted
    or starts_with(p_module_path, p_wanted || '.') or starts_with(p_module_path, p_wanted || '[')
    or starts_with(p_address, p_wanted || '[')
      and concat(nullif(p_module_path, '') || '.', case when p_mode = 'data' then 'data.' end, p_type, '.', p_name) = p_wanted
$$;

comment on function kilolock._matches_address(text, text, text, text, text, text) is
  'Whether an address means a resource: the instance, its block or a module around it.';
revoke all on function kilolock._matches_address(text, text, text, text, text, text) from public;
