-- POST /v1/prune: kl prune
--
-- p_request  {"state", "keep": N or "keep_days": D, "apply"}; without apply it only tells what would go
--
-- keep is how many of the newest versions stay. keep_days keeps each version that was the head at some time in the last D days, so
-- that what was at any moment of them can still be asked for. The head and tagged versions stay in any case.
--
-- Answers {"state", "versions": [{"version", "serial", "created_at", "source", "actor", "size"}], "bytes", "past_rows",
-- "kept", "applied"}; bytes are those that the documents and rows take in the database, before the room is used again.
--
-- Raises  KLB05, KLB06  the request is malformed
--         KLN01  no such state
-- Locks   the states row
create or replace function kilolock.prune_versions(p_request jsonb, p_actor text)
  returns json
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_keep    constant text := kilolock._requested_text(p_request, 'keep');
  v_days    constant text := kilolock._requested_text(p_request, 'keep_days');
  v_apply   constant boolean := kilolock._requested_flag(p_request, 'apply');
  v_state   kilolock.states;
  v_gone    bigint[];
  v_list    json;
  v_dropped record;
begin
  if num_nonnulls(v_keep, v_days) <> 1 then
    raise exception 'the request has to say either "keep" or "keep_days"'
      using errcode = 'KLB06', hint = 'Send JSON such as {"state": "prod", "keep": 100}.';
  elsif v_keep !~ '^[1-9][0-9]{0,8}$' then
    raise exception '"keep" is %, not a whole number above zero', left(v_keep, 40)
      using errcode = 'KLB06', hint = 'It is how many of the newest versions stay.';
  elsif v_days !~ '^([0-9]{1,5}|[0-9]{0,5}\.[0-9]{1,6})$' then
    raise exception '"keep_days" is %, not a number of days', left(v_days, 40)
      using errcode = 'KLB06', hint = 'Versions that were the head at some time in the last so many days stay.';
  end if;

  v_state := kilolock._requested_state(p_request);
  select coalesce(array_agg(x.version), '{}'),
         coalesce(json_agg(json_build_object('version', x.version, 'serial', x.serial, 'created_at', x.created_at,
           'source', x.source, 'actor', x.actor, 'size', x.raw_size) order by x.version), '[]')
  into v_gone, v_list
  from (
    select d.id, d.version, d.serial, d.created_at, d.source, d.actor, d.raw_size,
           row_number() over (order by d.version desc) as place,
           least(
             kilolock._deleted_at(v_state.id, d.version),
             (select n.created_at from kilolock.version_documents n
              where n.state_id = v_state.id and n.version > d.version order by n.version limit 1)) as until
    from kilolock.version_documents d
    where d.state_id = v_state.id and d.pruned_at is null
  ) x
  where x.id is distinct from v_state.current_version_id
    and not exists (select from kilolock.tags t where t.state_id = v_state.id and t.version = x.version)
    and case
      when v_keep is not null then x.place > v_keep::bigint
      else x.until < clock_timestamp() - v_days::numeric * interval '1 day'
    end;

  select x.bytes, x.past_rows into v_dropped
  from kilolock._drop_versions(v_state.id, v_gone, v_apply and v_gone <> '{}', p_strict => false) x;
  if v_apply and v_gone <> '{}' then
    insert into kilolock.events (state_id, kind, actor, payload)
    values (v_state.id, 'version_prune', kilolock._actor(p_request, p_actor), jsonb_strip_nulls(jsonb_build_object(
      'count', cardinality(v_gone), 'versions', (
        select jsonb_agg(jsonb_build_array(r.first, r.last) order by r.first)
        from (
          select min(g.version) as first, max(g.version) as last
          from (select u.version, u.version - row_number() over (order by u.version) as run from unnest(v_gone) u(version)) g
          group by g.run
        ) r),
      'keep', v_keep::bigint, 'keep_days', v_days::numeric, 'bytes', v_dropped.bytes)));
  end if;
  return json_build_object('state', v_state.name, 'versions', v_list, 'bytes', v_dropped.bytes,
    'past_rows', v_dropped.past_rows, 'kept', (
      select count(*) from kilolock.version_documents d
      where d.state_id = v_state.id and d.pruned_at is null and d.version <> all (v_gone)),
    'applied', v_apply);
end;
$$;

comment on function kilolock.prune_versions(jsonb, text) is
  'Remove old versions of a state, all but the newest or those of the last days; or tell what would go.';
revoke all on function kilolock.prune_versions(jsonb, text) from public;
grant execute on function kilolock.prune_versions(jsonb, text) to kilolock_app;
