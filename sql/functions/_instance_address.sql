-- The address of an instance as terraform state list prints it.
create or replace function kilolock._instance_address(
  p_module text, p_mode text, p_type text, p_name text, p_index_key jsonb
)
  returns text
  language sql
  immutable
as $$
  select case when p_module = '' then '' else p_module || '.' end
      || case when p_mode = 'data' then 'data.' else '' end
      || p_type || '.' || p_name
      || case jsonb_typeof(p_index_key)
           when 'string' then '[' || kilolock._quote_key(p_index_key #>> '{}') || ']'
           when 'number' then '[' || trunc((p_index_key #>> '{}')::numeric)::text || ']'
           else ''
         end
$$;

comment on function kilolock._instance_address(text, text, text, text, jsonb) is
  'A resource instances address.';
revoke all on function kilolock._instance_address(text, text, text, text, jsonb) from public;
