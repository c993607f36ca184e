-- Who acts for an apply run: as _actor, else who began it.
create or replace function kilolock._run_actor(p_run kilolock.apply_runs, p_request jsonb, p_actor text)
  returns text
  language sql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
  select kilolock._actor(case
    when coalesce(p_request ->> 'who', '') = '' then jsonb_build_object('who', p_run.holder)
    else p_request
  end, p_actor)
$$;

comment on function kilolock._run_actor(kilolock.apply_runs, jsonb, text) is
  'Who acts for an apply run.';
revoke all on function kilolock._run_actor(kilolock.apply_runs, jsonb, text) from public;
