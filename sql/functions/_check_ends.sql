-- Whether what stands before and after the resources of a document is JSON by itself, each with its own keys.
--
-- p_head  from the first brace to before ',\n  "resources"'
-- p_tail  what follows the closing bracket of the resources
--
-- Raises  KLX03  the document was not cut between its resources and the rest: it is in another layout
create or replace function kilolock._check_ends(p_head text, p_tail text)
  returns void
  language plpgsql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
begin
  perform from kilolock._members(kilolock._hide_escapes(p_head || '}')::json) m
  where m.key in ('serial', 'outputs') and m.value <> 'null'
  having count(*) = 2;
  if not found then
    raise exception 'another layout' using errcode = 'KLX03';
  end if;
  perform from kilolock._members(kilolock._hide_escapes('{"":0' || p_tail)::json) m
  where kilolock._read_string(m.key) in ('version', 'terraform_version', 'serial', 'lineage', 'outputs', 'resources');
  if found then
    raise exception 'another layout' using errcode = 'KLX03';
  end if;
exception
  when invalid_text_representation then
    raise exception 'another layout' using errcode = 'KLX03';
end;
$$;

comment on function kilolock._check_ends(text, text) is
  'Whether a document was cut rightly before and after its resources.';
revoke all on function kilolock._check_ends(text, text) from public;
