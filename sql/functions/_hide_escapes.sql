-- A JSON text without a backslash in it, for json functions that must not decode any string.
--
-- ->, json_each and the like decode every string they pass, and fail on \u0000 or half a surrogate pair anywhere. In this
-- form there is nothing to decode, and every value they give can be brought back byte for byte (_show_escapes). U+FDD0
-- is the sign of an escape here; one of the text's own becomes a pair of signs.
create or replace function kilolock._hide_escapes(p_json text)
  returns text
  language sql
  immutable
as $$
  select case
    when strpos(p_json, '\') = 0 and strpos(p_json, u&'\FDD0') = 0 then p_json
    else replace(replace(replace(replace(p_json, u&'\FDD0', u&'\FDD0a'), '\\', u&'\FDD0b'), '\"', u&'\FDD0c'), '\', u&'\FDD0d')
  end
$$;

comment on function kilolock._hide_escapes(text) is
  'A JSON text with another sign for each escape, so that json functions have nothing to decode.';
revoke all on function kilolock._hide_escapes(text) from public;
