-- Where Terraform sorts a block; p_key is its text from the brace to its name.
create or replace function kilolock._block_place(p_key text)
  returns text[]
  language sql
  immutable
as $$
  select array[coalesce(j.module, ''), j.mode, j.type, j.name] collate "C"
  from json_to_record(('{' || right(p_key, -strpos(p_key, '{')) || '}')::json) j(module text, mode text, type text, name text)
$$;

comment on function kilolock._block_place(text) is 'Where Terraform sorts a block.';
revoke all on function kilolock._block_place(text) from public;
