-- The sort key of an instance (_instance_order), read off its text as Terraform writes it: its key stands in the first line.
create or replace function kilolock._entry_order(p_instance text)
  returns bytea
  language plpgsql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
declare
  c_key     constant text := '          "index_key": ';
  c_deposed constant text := e'\n          "deposed": "';
  v_line    constant text := split_part(p_instance, e'\n', 3);
  v_key     constant jsonb := case when starts_with(v_line, c_key) then kilolock._read_json(rtrim(right(v_line, -length(c_key)), ','), true) end;
  v_deposed constant text := case when strpos(p_instance, c_deposed) > 0 then split_part(split_part(p_instance, c_deposed, 2), '"', 1) end;
begin
  return kilolock._instance_order(v_key, v_deposed);
end;
$$;

comment on function kilolock._entry_order(text) is
  'The sort key of an instance, read off its text.';
revoke all on function kilolock._entry_order(text) from public;
