-- What a JSON string says; p_hidden is what stands between its quotes, its escapes hidden (_hide_escapes).
create or replace function kilolock._read_string(p_hidden text)
  returns text
  language sql
  immutable
as $$
  select case
    when strpos(p_hidden, u&'\FDD0') = 0 then p_hidden
    else kilolock._read_json('"' || kilolock._show_escapes(p_hidden) || '"', true) #>> '{}'
  end
$$;

comment on function kilolock._read_string(text) is
  'The text that a JSON string means.';
revoke all on function kilolock._read_string(text) from public;
