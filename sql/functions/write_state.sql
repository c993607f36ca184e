-- POST /v1/states/{name}, and every other way to write a document that a client holds
--
-- Checks the body's transfer and the caller's lock; _write_document stores it. p_force takes any serial and lineage, as
-- holding the lock does, but not past another's lock.
--
-- Raises  KLB06  a source that no client may claim
--         KLB01  the body is not UTF-8; and as _write_document
--         KLB04  Content-MD5 does not fit the body
--         KLC01, KLL01  somebody else's lock (_check_lock)
--         KLC03, KLC04  without a lock: serial or lineage (_write_document)
--         KLQ01, KLQ02  more than a quota's hard limit (_write_document)
-- Locks   the states row
drop function if exists kilolock.write_state(text, text, text, text, bytea, text, text, text);
create or replace function kilolock.write_state(
  p_workspace text, p_environment text, p_name text, p_lock_id text, p_body bytea,
  p_content_md5 text, p_actor text, p_source text default 'apply', p_force boolean default false
)
  returns text
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_state  kilolock.states;
  v_lock   kilolock.state_locks;
  v_md5    text := md5(p_body);
  v_text   text;
  v_actor  text;
  v_answer text;
begin
  if coalesce(p_source, '') not in ('apply', 'import', 'refresh') then
    raise exception 'a client cannot write with source "%"', p_source
      using errcode = 'KLB06', hint = 'It is apply, import or refresh.';
  end if;
  if p_content_md5 is not null and btrim(p_content_md5) <> encode(decode(v_md5, 'hex'), 'base64') then
    raise exception 'the body does not fit its Content-MD5: it was cut or changed on the way'
      using errcode = 'KLB04', hint = 'Nothing was stored; send it again.';
  end if;
  begin
    v_text := convert_from(p_body, 'UTF8');
  exception when character_not_in_repertoire or untranslatable_character then
    raise exception 'state "%": the body is not UTF-8', p_name
      using errcode = 'KLB01', detail = sqlerrm, hint = 'Nothing was stored. Send the state file as Terraform wrote it.';
  end;

  v_state := kilolock._lock_state_row(p_workspace, p_environment, p_name, p_create => true);
  v_lock := kilolock._check_lock(v_state, p_lock_id);
  v_actor := coalesce(p_actor, nullif(v_lock.who, ''), 'anonymous');
  v_answer := kilolock._write_document(v_state, v_text, octet_length(p_body), v_md5, p_source, v_actor,
    p_lock_id => v_lock.lock_id, p_force => coalesce(p_force, false));
  if p_source = 'refresh' then
    perform kilolock._record_refresh(v_state, v_actor);
  end if;
  return v_answer;
end;
$$;

comment on function kilolock.write_state(text, text, text, text, bytea, text, text, text, boolean) is
  'Store a state document as the new head and make the rows match it; answers what changed as JSON.';
revoke all on function kilolock.write_state(text, text, text, text, bytea, text, text, text, boolean) from public;
grant execute on function kilolock.write_state(text, text, text, text, bytea, text, text, text, boolean) to kilolock_app;
