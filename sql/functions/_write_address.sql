-- The address of a resource instance, a block where there is no key, or a module where there is no type.
create or replace function kilolock._write_address(p_module_path text, p_mode text, p_type text, p_name text, p_index_key jsonb)
  returns text
  language sql
  immutable
as $$
  select concat_ws('.', nullif(p_module_path, ''), case when p_mode = 'data' then 'data' end, p_type, p_name)
    || coalesce('[' || kilolock._write_key(p_index_key) || ']', '')
$$;

comment on function kilolock._write_address(text, text, text, text, jsonb) is
  'An address from its parts.';
revoke all on function kilolock._write_address(text, text, text, text, jsonb) from public;
