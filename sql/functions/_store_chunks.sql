-- Store the changed chunks of a document anew; answers the list of all its chunks, which is the one that _store_document
-- would make of the whole text.
--
-- A chunk ends where the content says so, hence a change touches only the chunk it is in, and the next one where it takes
-- the end away.
--
-- p_ids     the chunks as they were
-- p_parts   their texts now (_edit_chunks), of which those at p_places have changed
create or replace function kilolock._store_chunks(
  p_state_id bigint, p_salt text, p_ids bigint[], p_parts text[], p_places integer[]
)
  returns bigint[]
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  c_end     constant text := e'\n        }';
  v_count   constant integer := cardinality(p_ids);
  v_is_cut  boolean[] := array_fill(false, array[cardinality(p_ids)]);
  v_is_open boolean := false;
  v_text    text := '';
  v_piece   text;
  v_new     record;
  v_taken   integer := 0;
  v_rest    integer := 0;
  v_ids     bigint[] := '{}';
begin
  -- All that is cut anew goes in one text: a border is one whatever stands before it. What changed is cut as far as a chunk ends.
  for n in 1 .. v_count loop
    v_is_cut[n] := v_is_open or n = any (p_places);
    continue when not v_is_cut[n] or p_parts[n] = '';
    v_text := v_text || p_parts[n];
    -- The last piece, digested as _store_document does.
    v_piece := split_part(p_parts[n], c_end, -2);
    v_piece := case when starts_with(v_piece, e',\n        {\n') then right(v_piece, -10) else v_piece end || c_end;
    v_is_open := split_part(p_parts[n], c_end, -1) <> '' or get_byte(sha256(convert_to(p_salt || v_piece, 'UTF8')), 0) & 63 <> 0;
  end loop;
  select d.chunk_ids, d.chunk_sizes into v_new
  from kilolock._store_document(p_state_id, p_salt, case when v_is_cut[v_count] then v_text else left(v_text, -length(c_end)) end,
    convert_to(v_text, 'UTF8'), v_is_cut[v_count], true) d;

  for n in 1 .. v_count loop
    if not v_is_cut[n] then
      v_ids := v_ids || p_ids[n];
      continue;
    end if;
    v_rest := v_rest + octet_length(p_parts[n]);
    while v_rest >= v_new.chunk_sizes[v_taken + 1] loop
      v_taken := v_taken + 1;
      v_rest := v_rest - v_new.chunk_sizes[v_taken];
      v_ids := v_ids || v_new.chunk_ids[v_taken];
    end loop;
  end loop;
  return v_ids || v_new.chunk_ids[v_taken + 1:];
end;
$$;

comment on function kilolock._store_chunks(bigint, text, bigint[], text[], integer[]) is
  'Store the changed chunks of a document anew.';
revoke all on function kilolock._store_chunks(bigint, text, bigint[], text[], integer[]) from public;
