-- What stands before the resources of a document, with another serial and some outputs put or removed.
--
-- Raises  KLX03  another layout
create or replace function kilolock._edit_head(p_head text, p_serial numeric, p_outputs jsonb)
  returns text
  language plpgsql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
declare
  c_outputs constant text := e',\n  "outputs": ';
  v_head    text := kilolock._set_serial(p_head || '}', p_serial);
  v_at      integer;
  v_part    text;
begin
  v_head := left(v_head, -1);
  if p_outputs = '{}' then
    return v_head;
  end if;
  select kilolock._show_escapes(m.value) into v_part
  from kilolock._members(kilolock._hide_escapes(v_head || '}')::json) m
  where m.key = 'outputs';
  v_at := strpos(v_head, c_outputs);
  if v_at = 0 or substr(v_head, v_at + length(c_outputs)) <> v_part then
    raise exception 'another layout' using errcode = 'KLX03';
  end if;
  return left(v_head, v_at - 1) || c_outputs || kilolock._edit_outputs(v_part, p_outputs);
end;
$$;

comment on function kilolock._edit_head(text, numeric, jsonb) is
  'What stands before the resources of a document, with another serial and other outputs.';
revoke all on function kilolock._edit_head(text, numeric, jsonb) from public;
