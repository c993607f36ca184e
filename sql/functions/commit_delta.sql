-- POST /v1/state-engine/state/commit
--
-- Writes what a run changed onto the head of this moment, as the next version. The run must still hold what it touches,
-- under the fencing number that it was granted. A commit that comes again under its number is answered as before and
-- writes nothing, however the run stands by then.
--
-- p_request  {"state", "run", "fencing", "commit": 1, 2 …, "base_version", "delta", "terraform_version", "lineage"}; delta
--            as _write_delta takes it, base_version where the run planned on a later one than it began with. With
--            terraform_version a state that has no head is begun, of a lineage of its own if none is given
--
-- Answers what _write_delta answers, with "run" and "commit".
--
-- Raises  KLB06  a field is wrong, or the delta cannot be read
--         KLC11  the run is over: its lease has ended, or somebody aborted it
--         KLC12  it holds no reservations, or the fencing number is not that of what it holds
--         KLC13  the delta touches an address that the run has not reserved for writing
--         KLC14  something that it reserved has changed since its base version
--         KLC15  the commit's number was another delta's
--         KLN03, KLN11  no such base_version, no such run
--         and as _write_delta
-- Locks   the states row
create or replace function kilolock.commit_delta(p_request jsonb, p_actor text)
  returns json
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_number  constant bigint := kilolock._requested_integer(p_request, 'commit', 1, 9223372036854775807);
  v_fencing constant bigint := kilolock._requested_integer(p_request, 'fencing', 0, 9223372036854775807);
  v_delta   constant jsonb := p_request -> 'delta';
  v_digest  constant bytea := sha256(convert_to(coalesce(v_delta::text, ''), 'UTF8'));
  v_terraform constant text := kilolock._requested_text(p_request, 'terraform_version');
  v_lineage constant text := kilolock._requested_text(p_request, 'lineage');
  v_run     kilolock.apply_runs := kilolock._requested_run(p_request);
  v_commit  kilolock.apply_run_commits;
  v_request kilolock.reservation_requests;
  v_state   kilolock.states;
  v_touched text[];
  v_base    bigint;
  v_changes record;
  v_payload jsonb;
  v_parts   jsonb;
  v_text    text;
  v_answer  jsonb;
begin
  select c.* into v_commit from kilolock.apply_run_commits c where c.apply_run_id = v_run.id and c.number = v_number;
  if v_commit.delta_digest = v_digest then
    return v_commit.answer::json;
  elsif v_commit.number is not null then
    raise exception 'commit % of apply run "%" was another delta, which is version %', v_number, v_run.id, v_commit.version
      using errcode = 'KLC15', hint = 'Give each delta a number of its own.';
  end if;

  v_run := kilolock._running_run(p_request);
  select s.* into v_state from kilolock.states s where s.id = v_run.state_id;
  select q.* into v_request from kilolock.reservation_requests q
  where q.apply_run_id = v_run.id and q.granted_at is not null;
  if v_request.id is null then
    raise exception 'apply run "%" holds no reservations', v_run.id
      using errcode = 'KLC12', hint = 'Acquire what the delta touches, then commit it with the fencing number of that answer.';
  elsif v_fencing <> v_run.fencing then
    raise exception 'apply run "%" holds its reservations under fencing number %, not %', v_run.id, v_run.fencing, v_fencing
      using errcode = 'KLC12', hint = 'They were acquired anew meanwhile, so what was planned before may not fit any more.';
  end if;

  begin
    v_touched := kilolock._uncovered(kilolock._delta_addresses(v_delta), v_request.writes);
  exception when data_exception then
    perform kilolock._check_delta(v_state, v_delta);
    raise exception 'the delta cannot be read: %', sqlerrm
      using errcode = 'KLB06', hint = 'Nothing was stored. sql/functions/_write_delta.sql describes the form.';
  end;
  if cardinality(v_touched) > 0 then
    -- What is no delta at all may touch anything.
    perform kilolock._check_delta(v_state, v_delta);
    raise exception 'the delta of apply run "%" touches "%"%, which the run has not reserved for writing', v_run.id,
        left(v_touched[1], 1000),
        case when cardinality(v_touched) > 1 then format(' and %s more', cardinality(v_touched) - 1) else '' end
      using errcode = 'KLC13', hint = 'Acquire the addresses too, in "write"; a module or resource covers what is in it.';
  end if;

  v_base := kilolock._requested_integer(p_request, 'base_version', 0, 999999999999999999, v_run.base_version);
  if v_base > 0 then
    perform kilolock._version_of(v_state, v_base::text);
  end if;
  -- What was found unchanged at the grant still is: since then nobody else can have written it.
  if v_run.verified_version is null then
    select c.* into v_changes from kilolock._changes_since(v_state, v_base, v_request) c;
    if v_changes.total > 0 then
      raise exception 'of what apply run "%" reserved, "%"% has changed since version %, on which it was planned', v_run.id,
          left(v_changes.changed ->> 0, 1000),
          case when v_changes.total > 1 then format(' and %s more', v_changes.total - 1) else '' end, v_base
        using errcode = 'KLC14', hint = format('Plan again on version %s.', kilolock._head_version(v_state));
    end if;
  end if;

  v_payload := jsonb_build_object('run', v_run.id, 'commit', v_number);
  if v_state.current_version_id is null and v_terraform is not null then
    v_parts := kilolock._check_delta(v_state, v_delta);
    v_text := kilolock._edit_document(kilolock._empty_document(v_terraform, coalesce(v_lineage, gen_random_uuid()::text)),
      coalesce(v_state.serial, 0) + 1, v_parts -> 'put', v_parts -> 'remove', v_parts);
    v_answer := kilolock._write_document(v_state, v_text, octet_length(v_text), md5(v_text), 'state-engine', kilolock._run_actor(v_run, p_request, p_actor),
      p_payload => v_payload);
  else
    v_answer := kilolock._write_delta(v_state, v_delta, 'state-engine', kilolock._run_actor(v_run, p_request, p_actor), v_payload);
  end if;
  v_answer := v_answer || v_payload;
  insert into kilolock.apply_run_commits (apply_run_id, number, delta_digest, fencing, version, answer)
  values (v_run.id, v_number, v_digest, v_fencing, (v_answer ->> 'version')::bigint, v_answer);
  update kilolock.apply_runs r
  set committed_version = (v_answer ->> 'version')::bigint,
      verified_version = coalesce(r.verified_version, kilolock._head_version(v_state)),
      expires_at = clock_timestamp() + make_interval(secs => r.lease_seconds)
  where r.id = v_run.id;
  return v_answer::json;
end;
$$;

comment on function kilolock.commit_delta(jsonb, text) is
  'Write what an apply run changed as the next version of its state.';
revoke all on function kilolock.commit_delta(jsonb, text) from public;
grant execute on function kilolock.commit_delta(jsonb, text) to kilolock_app;
