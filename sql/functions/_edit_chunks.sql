-- A document with some parts put or removed, and another serial, where only the chunks that hold them are looked into.
--
-- Gives what _edit_document gives, byte for byte, for a document that is known to be in Terraform's layout.
--
-- p_parts  the texts of the document's chunks; each but the last ends where an instance ends
-- p_delta  as _check_delta answers it
-- places, texts  which chunks change, and their texts then; what goes over a border is in one of them, and others may be empty
-- head     what now stands before the resources
--
-- Raises  KLX03  something is not where it should be; only a look at the whole document tells
create or replace function kilolock._edit_chunks(
  p_parts text[], p_serial numeric, p_delta jsonb, out places integer[], out texts text[], out head text
)
  language plpgsql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
declare
  c_resources constant text := e',\n  "resources": [';
  c_checks    constant text := e',\n  "check_results": ';
  c_close     constant text := e'\n      ]\n    }';
  c_between   constant text := c_close || ',';
  c_end       constant text := e'\n  ]';
  v_count     constant integer := cardinality(p_parts);
  v_first     integer := 1;
  v_last      integer := v_count;
  v_at        integer;
  v_head      text := '';
  v_rest      text;
  v_tail      text;
  v_body      text[];
  v_edit      record;
begin
  -- The parts from v_first to v_last hold resources, in v_body these alone, and the end of a block before the first of theirs.
  -- Terraform before 1.2 wrote no check results after them.
  loop
    v_at := strpos(p_parts[v_first], c_resources);
    exit when v_at > 0;
    v_head := v_head || p_parts[v_first];
    v_first := v_first + 1;
    if v_first > v_count then
      raise exception 'another layout' using errcode = 'KLX03';
    end if;
  end loop;
  v_head := v_head || left(p_parts[v_first], v_at - 1);
  v_body := p_parts;
  v_body[v_first] := c_between || right(p_parts[v_first], 1 - v_at - length(c_resources));
  loop
    v_at := strpos(v_body[v_last], c_close || c_end || c_checks);
    exit when v_at > 0 or v_last = v_first;
    v_last := v_last - 1;
  end loop;
  if v_at = 0 then
    v_last := v_count;
    v_at := strpos(v_body[v_last], c_close || c_end || e'\n}');
  end if;
  if v_at = 0 then
    raise exception 'another layout' using errcode = 'KLX03';
  end if;
  v_rest := right(v_body[v_last], 1 - v_at - length(c_close || c_end));
  v_tail := v_rest;
  for n in v_last + 1 .. v_count loop
    v_tail := v_tail || p_parts[n];
  end loop;
  perform kilolock._check_ends(v_head, v_tail);
  v_body[v_last] := left(v_body[v_last], v_at - 1);

  if p_delta -> 'put' <> '[]' or p_delta -> 'remove' <> '[]' then
    v_edit := kilolock._edit_resources(v_body, v_first, v_last, p_delta -> 'put', p_delta -> 'remove');
    for n in 1 .. cardinality(v_edit.places) loop
      v_body[v_edit.places[n]] := v_edit.texts[n];
    end loop;
  end if;
  v_at := v_first;
  while v_body[v_at] = '' and v_at < v_last loop
    v_at := v_at + 1;
  end loop;
  -- Without any instance a document is cut by another rule.
  if v_body[v_at] = '' then
    raise exception 'another layout' using errcode = 'KLX03';
  end if;
  v_body[v_at] := right(v_body[v_at], -length(c_between));

  -- What stands around the resources comes back.
  head := kilolock._edit_head(v_head, p_serial, p_delta -> 'outputs');
  v_body[v_first] := head || c_resources || v_body[v_first];
  if p_delta -> 'check_results' <> '{}' then
    v_rest := kilolock._edit_tail(v_tail, p_delta -> 'check_results');
  end if;
  v_body[v_last] := v_body[v_last] || c_close || c_end || v_rest;
  for n in 1 .. v_count loop
    if n < v_first or n > v_last and p_delta -> 'check_results' <> '{}' then
      v_body[n] := '';
    end if;
    if v_body[n] <> p_parts[n] then
      places := places || n;
      texts := texts || v_body[n];
    end if;
  end loop;
end;
$$;

comment on function kilolock._edit_chunks(text[], numeric, jsonb) is
  'A document with some parts put or removed, where only the chunks that hold them are looked into.';
revoke all on function kilolock._edit_chunks(text[], numeric, jsonb) from public;
