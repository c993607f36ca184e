-- A state document with some parts put or removed, and another serial.
--
-- p_put, p_remove  as _edit_blocks takes them
-- p_delta          its "outputs" and "check_results" as _write_delta takes them
--
-- Parts are replaced in the text; everything else stays byte for byte. A document in another layout than Terraform's is
-- brought into it first, every token as it was.
create or replace function kilolock._edit_document(
  p_text text, p_serial numeric, p_put jsonb, p_remove jsonb, p_delta jsonb
)
  returns text
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  c_resources constant text := e',\n  "resources": [';
  c_outputs   constant text := e',\n  "outputs": ';
  c_checks    constant text := e',\n  "check_results": ';
  v_text      text := p_text;
  v_is_laid_out boolean := false;
  v_at        integer;
  v_head      text;
  v_body      text;
  v_tail      text;
  v_part      text;
begin
  loop
    begin
      select d.head, d.body, d.tail into v_head, v_body, v_tail from kilolock._split_document(v_text) d;
      v_head := kilolock._set_serial(v_head || '}', p_serial);
      v_head := left(v_head, length(v_head) - 1);
      if p_delta -> 'outputs' <> '{}' then
        select kilolock._show_escapes(m.value) into v_part
        from kilolock._members(kilolock._hide_escapes(v_head || '}')::json) m
        where m.key = 'outputs';
        v_at := strpos(v_head, c_outputs);
        if v_at = 0 or substr(v_head, v_at + length(c_outputs)) <> v_part then
          raise exception 'another layout' using errcode = 'KLX03';
        end if;
        v_head := left(v_head, v_at - 1) || c_outputs || kilolock._edit_outputs(v_part, p_delta -> 'outputs');
      end if;
      if p_delta -> 'check_results' <> '{}' then
        select kilolock._show_escapes(m.value) into v_part
        from kilolock._members(kilolock._hide_escapes('{"":0' || v_tail)::json) m
        where m.key = 'check_results';
        if v_part is not null and not starts_with(v_tail, c_checks || v_part) then
          raise exception 'another layout' using errcode = 'KLX03';
        end if;
        v_tail := c_checks || kilolock._edit_check_results(coalesce(v_part, 'null'), p_delta -> 'check_results')
          || case when v_part is null then v_tail else substr(v_tail, length(c_checks || v_part) + 1) end;
      end if;
      if p_put <> '[]' or p_remove <> '[]' then
        v_body := kilolock._edit_blocks(v_body, p_put, p_remove);
      end if;
      return v_head || c_resources || v_body || case when v_body = '' then ']' else e'\n  ]' end || v_tail;
    exception
      when sqlstate 'KLX03' then
        if v_is_laid_out then
          raise exception 'the document cannot be brought into Terraform''s layout' using errcode = 'KLX03';
        end if;
        v_is_laid_out := true;
        v_text := kilolock._lay_out_document(p_text);
    end;
  end loop;
end;
$$;

comment on function kilolock._edit_document(text, numeric, jsonb, jsonb, jsonb) is
  'A state document with some parts put or removed, and another serial.';
revoke all on function kilolock._edit_document(text, numeric, jsonb, jsonb, jsonb) from public;
