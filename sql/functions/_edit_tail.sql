-- What follows the resources of a document, with some check results put or removed.
--
-- Raises  KLX03  another layout
create or replace function kilolock._edit_tail(p_tail text, p_check_results jsonb)
  returns text
  language plpgsql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
declare
  c_checks constant text := e',\n  "check_results": ';
  v_part   text;
begin
  if p_check_results = '{}' then
    return p_tail;
  end if;
  select kilolock._show_escapes(m.value) into v_part
  from kilolock._members(kilolock._hide_escapes('{"":0' || p_tail)::json) m
  where m.key = 'check_results';
  if v_part is not null and not starts_with(p_tail, c_checks || v_part) then
    raise exception 'another layout' using errcode = 'KLX03';
  end if;
  return c_checks || kilolock._edit_check_results(coalesce(v_part, 'null'), p_check_results)
    || case when v_part is null then p_tail else substr(p_tail, length(c_checks || v_part) + 1) end;
end;
$$;

comment on function kilolock._edit_tail(text, jsonb) is
  'What follows the resources of a document, with other check results.';
revoke all on function kilolock._edit_tail(text, jsonb) from public;
