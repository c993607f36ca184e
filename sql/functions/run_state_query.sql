-- POST /v1/query and kl query, for a caller who may GET every state
--
-- Runs one statement of a user and answers a JSON object a row, keys in the order of the columns. The function belongs to
-- kilolock_state_reader, which may read raw_state too: inside a security definer function PostgreSQL lets nobody take another role, so the
-- statement cannot leave it. The caller starts the transaction read only and with a statement timeout. Arguments are
-- ($1)[1], ($1)[2] and so on. p_limit ends the answer after that many rows; null is no limit.
--
-- Raises  KLP01, KLB08  as _run_statement
create or replace function kilolock.run_state_query(p_sql text, p_args text[], p_limit bigint)
  returns setof text
  language sql
  security definer
  set search_path = kilolock, public, pg_temp
as $$
  select kilolock._run_statement(p_sql, p_args, p_limit)
$$;

comment on function kilolock.run_state_query(text, text[], bigint) is
  'Run one query of a user as kilolock_state_reader; one JSON object a row.';
revoke all on function kilolock.run_state_query(text, text[], bigint) from public;
grant execute on function kilolock.run_state_query(text, text[], bigint) to kilolock_app, kilolock_state_reader;
grant create on schema kilolock to kilolock_state_reader;
alter function kilolock.run_state_query(text, text[], bigint) owner to kilolock_state_reader;
revoke create on schema kilolock from kilolock_state_reader;
