-- A state document in Terraform's layout, cut before and after what stands between the brackets of "resources".
--
-- Both ends are JSON by themselves, so that the cuts are where they should be.
--
-- Raises  KLX03  the document is in another layout
create or replace function kilolock._split_document(p_text text, out head text, out body text, out tail text)
  language plpgsql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
declare
  c_resources constant text := e',\n  "resources": [';
  v_at        integer := strpos(p_text, c_resources);
begin
  head := left(p_text, greatest(v_at - 1, 0));
  body := substr(p_text, v_at + length(c_resources));
  v_at := case when starts_with(body, ']') then 1 else strpos(body, e'\n  ]') end;
  tail := substr(body, case when v_at = 1 then 2 else v_at + 4 end);
  body := left(body, greatest(v_at - 1, 0));

  perform kilolock._check_ends(head, tail);
end;
$$;

comment on function kilolock._split_document(text) is
  'A state document in Terraform''s layout, cut before and after its resources.';
revoke all on function kilolock._split_document(text) from public;
