-- What _hide_escapes made, as it was.
create or replace function kilolock._show_escapes(p_hidden text)
  returns text
  language sql
  immutable
as $$
  select case
    when strpos(p_hidden, u&'\FDD0') = 0 then p_hidden
    else replace(replace(replace(replace(p_hidden, u&'\FDD0d', '\'), u&'\FDD0c', '\"'), u&'\FDD0b', '\\'), u&'\FDD0a', u&'\FDD0')
  end
$$;

comment on function kilolock._show_escapes(text) is
  'The JSON text that _hide_escapes was given.';
revoke all on function kilolock._show_escapes(text) from public;
