-- POST /v1/query and kl query, for a caller who may GET every state
--
-- Runs one statement of a user and answers a JSON object a row, keys in the order of the columns. The function belongs to
-- kilolock_state_reader, which may read raw_state too: inside a security definer function PostgreSQL lets nobody take another role, so the
-- statement cannot leave it. The caller starts the transaction read only and with a statement timeout. Arguments are
-- ($1)[1], ($1)[2] and so on. p_limit ends the answer after that many rows; null is no limit.
--
-- Whoever sends the answer on holds all of it in memory, and so there is an end to its size too.
--
-- Raises  KLP01  the transaction is not read only
--         KLB08  an answer of more than 256 MB
create or replace function kilolock.run_state_query(p_sql text, p_args text[], p_limit bigint)
  returns setof text
  language plpgsql
  security definer
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

comment on function kilolock.run_state_query(text, text[], bigint) is
  'Run one query of a user as kilolock_state_reader; one JSON object a row.';
revoke all on function kilolock.run_state_query(text, text[], bigint) from public;
grant execute on function kilolock.run_state_query(text, text[], bigint) to kilolock_app, kilolock_state_reader;
grant create on schema kilolock to kilolock_state_reader;
alter function kilolock.run_state_query(text, text[], bigint) owner to kilolock_state_reader;
revoke create on schema kilolock from kilolock_state_reader;
