-- One statement of a user, run as whoever calls: a JSON object a row, keys in the order of the columns.
--
-- run_query and run_state_query are the same but for the role that they are, and their statement with them; this is what
-- they share. They call it in a select list, so that its rows are kept once. Whoever sends the answer on holds all of it in
-- memory, and so there is an end to its size too.
--
-- Raises  KLP01  the transaction is not read only
--         KLB08  an answer of more than 256 MB
create or replace function kilolock._run_statement(p_sql text, p_args text[], p_limit bigint)
  returns setof text
  language plpgsql
  set search_path = kilolock, public, pg_temp
  set jit = off
as $$
declare
  v_row   record;
  v_text  text;
  v_count bigint := 0;
  v_size  bigint := 0;
begin
  if pg_catalog.current_setting('transaction_read_only') <> 'on' then
    raise exception 'a query runs in a read-only transaction only' using errcode = 'KLP01';
  end if;
  if p_limit is not null and p_limit <= 0 then
    return;
  end if;
  for v_row in execute p_sql using p_args loop
    v_text := pg_catalog.row_to_json(v_row)::text;
    v_size := v_size + pg_catalog.octet_length(v_text);
    if v_size > 268435456 then
      raise exception 'the answer has more than 256 MB' using errcode = 'KLB08', hint = 'Ask for fewer rows or for less of each.';
    end if;
    return next v_text;
    v_count := v_count + 1;
    exit when v_count = p_limit;
  end loop;
end;
$$;

comment on function kilolock._run_statement(text, text[], bigint) is
  'One statement of a user, run as whoever calls; one JSON object a row.';
revoke all on function kilolock._run_statement(text, text[], bigint) from public;
grant execute on function kilolock._run_statement(text, text[], bigint) to kilolock_reader, kilolock_state_reader;
