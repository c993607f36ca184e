-- Instances of some blocks of a document: what stands between the braces of each, in Terraform's layout.
--
-- p_blocks  [{"module", "mode", "type", "name"}]
create or replace function kilolock._document_instances(p_text text, p_blocks jsonb)
  returns table (module text, mode text, type text, name text, provider text, index_key jsonb, deposed text, content text)
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_text text := p_text;
  v_body text;
begin
  for v_round in 1 .. 2 loop
    begin
      select d.body into v_body from kilolock._split_document(v_text) d;
      return query
        select b.module, b.mode, b.type, b.name, b.provider, i.index_key, i.deposed, i.content
        from kilolock._split_blocks(v_body) b
        join (
          select distinct coalesce(w.module, '') as module, w.mode, w.type, w.name
          from jsonb_to_recordset(p_blocks) w(module text, mode text, type text, name text)
        ) w on w.module = b.module and w.mode = b.mode and w.type = b.type and w.name = b.name
        cross join kilolock._split_instances(b.list) i
        where b.is_laid_out and i.is_laid_out;
      -- Where a cut was wrong, JSON would have been broken, or this differs.
      perform from kilolock._split_blocks(v_body) b where not b.is_laid_out;
      if not found then
        return;
      end if;
    exception
      when sqlstate 'KLX03' or invalid_text_representation or substring_error then
        null;
    end;
    v_text := kilolock._lay_out_document(p_text);
  end loop;
end;
$$;

comment on function kilolock._document_instances(text, jsonb) is
  'Instances of some blocks of a document.';
revoke all on function kilolock._document_instances(text, jsonb) from public;
