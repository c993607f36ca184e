-- A state document with another serial, and every other byte as it was, whatever its layout.
--
-- Only a serial of the document itself is meant: not one inside an output or a resource, and all of them where the key
-- stands twice. A document without any gets one at its end.
create or replace function kilolock._set_serial(p_text text, p_serial numeric)
  returns text
  language plpgsql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
declare
  c_opening constant text := '^\s*[{,]\s*"[^"]*"\s*:\s*';
  v_head   text;
  v_rest   text;
  v_text   text := '';
  v_found  boolean := false;
  v_member record;
  v_space  text;
begin
  -- As Terraform writes it: in the first lines, and nowhere else.
  v_head := substring(left(p_text, 1000) from '^\{\s*"version"\s*:\s*4\s*,\s*"terraform_version"\s*:\s*"[^"\\]*"\s*,\s*"serial"\s*:\s*(?=[0-9]+\s*,)');
  if v_head is not null then
    v_rest := ltrim(substr(p_text, length(v_head) + 1), '0123456789');
    if strpos(v_rest, '"serial"') = 0 and strpos(v_rest, '\u00') = 0 then
      return v_head || p_serial || v_rest;
    end if;
  end if;

  -- Member by member; json_each gives every value's text as it stands.
  v_rest := kilolock._hide_escapes(p_text);
  for v_member in
    select e.key, e.value::text as value, kilolock._read_string(e.key) = 'serial' as is_serial
    from json_each(v_rest::json) with ordinality e(key, value, n)
    order by e.n
  loop
    -- { or a comma, the key and the colon, with the space between them
    v_space := substring(left(v_rest, 1000) from c_opening);
    if coalesce(length(v_space), 1000) = 1000 then
      v_space := substring(v_rest from c_opening);
    end if;
    v_text := v_text || v_space || case when v_member.is_serial then p_serial::text else v_member.value end;
    v_rest := substr(v_rest, length(v_space) + length(v_member.value) + 1);
    v_found := v_found or v_member.is_serial;
  end loop;
  if not v_found then
    v_text := v_text || ',"serial":' || p_serial;
  end if;
  return kilolock._show_escapes(v_text || v_rest);
end;
$$;

comment on function kilolock._set_serial(text, numeric) is
  'A state document with another serial and every other byte as it was.';
revoke all on function kilolock._set_serial(text, numeric) from public;
