-- Whether two module paths agree on the keys of the modules they share: a dependency never leaves its instance.
--
-- Steps are compared from the root for as long as the module names agree.
create or replace function kilolock.same_module_instance(p_from text, p_to text)
  returns boolean
  language sql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
  with step as (
    select f.n, f.step[1] = t.step[1] as same_module, f.step[2] is not distinct from t.step[2] as same_key
    from regexp_matches(p_from, 'module\.([^.\[]+)(\["(?:[^"\\]|\\.)*"\]|\[[0-9]+\])?\.?', 'g') with ordinality f(step, n)
    join regexp_matches(p_to, 'module\.([^.\[]+)(\["(?:[^"\\]|\\.)*"\]|\[[0-9]+\])?\.?', 'g') with ordinality t(step, n)
      on t.n = f.n
  )
  select not exists (
    select from step s
    where s.same_module and not s.same_key
      and not exists (select from step e where e.n < s.n and not e.same_module)
  )
$$;

comment on function kilolock.same_module_instance(text, text) is
  'Whether two module paths agree on the keys of the modules they share.';
revoke all on function kilolock.same_module_instance(text, text) from public;
grant execute on function kilolock.same_module_instance(text, text) to kilolock_reader, kilolock_app;
