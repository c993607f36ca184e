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
  v_text      text := p_text;
  v_is_laid_out boolean := false;
  v_head      text;
  v_body      text;
  v_tail      text;
begin
  loop
    begin
      select d.head, d.body, d.tail into v_head, v_body, v_tail from kilolock._split_document(v_text) d;
      v_head := kilolock._edit_head(v_head, p_serial, p_delta -> 'outputs');
      v_tail := kilolock._edit_tail(v_tail, p_delta -> 'check_results');
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
