-- Roles are shared by the whole cluster, so each is made only where it is missing.
--
-- kilolock_owner         owns every object; nobody logs in as it
-- kilolock_app           what a kld login must be a member of: may call the API functions, sees no table
-- kilolock_reader        reads the query surface, all but the documents themselves
-- kilolock_state_reader  a reader that may see raw_state too, as whoever may GET the state
do $$
declare
  v_role text;
begin
  foreach v_role in array array['kilolock_owner', 'kilolock_app', 'kilolock_reader', 'kilolock_state_reader'] loop
    if not exists (select from pg_catalog.pg_roles r where r.rolname = v_role) then
      begin
        execute format('create role %I nologin', v_role);
      exception when duplicate_object or unique_violation then
        null;  -- another database of this cluster was migrated at the same moment
      end;
    end if;
    -- A login that is no superuser must be able to act as the roles it hands objects to.
    if not (select r.rolsuper from pg_catalog.pg_roles r where r.rolname = current_user) then
      execute format('grant %I to current_user', v_role);
    end if;
  end loop;
  if not pg_catalog.pg_has_role('kilolock_state_reader', 'kilolock_reader', 'member') then
    grant kilolock_reader to kilolock_state_reader;
  end if;
  if not pg_catalog.pg_has_role('kilolock_owner', 'kilolock_state_reader', 'member') then
    grant kilolock_state_reader to kilolock_owner;
  end if;
end;
$$;

create schema if not exists kilolock authorization kilolock_owner;
grant usage on schema kilolock to kilolock_app, kilolock_reader;
