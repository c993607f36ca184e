-- The version of a state that a reference means, with its document.
--
--   current or null  the head
--   7                version 7
--   serial:41        the newest version with that serial
--   @2               two back from the head, not counting what was pruned. Where the state is deleted, that was its
--                    last step, and @1 is the version before it
--   a tag            the version that the tag points to
--   a time           the head at that moment; without a zone it is the session's TimeZone
--
-- Raises  KLN01  the head is meant, and the state was never written or is deleted
--         KLN03  there is no such version, or it was pruned
create or replace function kilolock._version_of(p_state kilolock.states, p_ref text)
  returns kilolock.version_documents
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_document kilolock.version_documents;
  v_meant    text;
begin
  case
    when coalesce(p_ref, 'current') = 'current' then
      select d.* into v_document from kilolock.version_documents d
      where d.state_id = p_state.id and d.id = p_state.current_version_id;
      if not found then
        raise exception 'state "%" does not exist', p_state.name
          using errcode = 'KLN01', hint = case when p_state.head_version = 0
            then 'A state is made by its first LOCK or POST; kl list shows those there are.'
            else 'It is deleted; its versions are still there: @1 is the last.' end;
      end if;
      return v_document;
    when p_ref ~ '^[0-9]{1,18}$' then
      select d.* into v_document from kilolock.version_documents d
      where d.state_id = p_state.id and d.version = p_ref::bigint;
      v_meant := 'no version ' || p_ref;
    when p_ref ~ '^serial:[0-9]{1,20}$' then
      select d.* into v_document from kilolock.version_documents d
      where d.state_id = p_state.id and d.serial = substr(p_ref, 8)::numeric
      order by d.pruned_at is not null, d.version desc
      limit 1;
      v_meant := 'no version with serial ' || substr(p_ref, 8);
    when p_ref ~ '^@[0-9]{1,18}$' then
      if p_ref ~ '^@0+$' then
        return kilolock._version_of(p_state, 'current');
      end if;
      select d.* into v_document from kilolock.version_documents d
      where d.state_id = p_state.id and d.pruned_at is null
      order by d.version desc
      offset substr(p_ref, 2)::bigint - case when p_state.current_version_id is null then 1 else 0 end
      limit 1;
      v_meant := format('no version %s back from its head', substr(p_ref, 2));
    else
      select d.* into v_document
      from kilolock.tags t
      join kilolock.version_documents d on d.state_id = t.state_id and d.version = t.version
      where t.state_id = p_state.id and t.name = p_ref;
      if not found then
        if kilolock._read_time(p_ref) is not null then
          return kilolock._version_at(p_state, kilolock._read_time(p_ref));
        end if;
        v_meant := format('no version or tag "%s"', p_ref);
      end if;
  end case;

  if v_document.version is null then
    raise exception 'state "%" has %', p_state.name, v_meant
      using errcode = 'KLN03',
            hint = 'A version is its number, serial:N, @N (N back), a tag, current, or a time such as 2026-11-30T10:00; state_versions lists all.';
  end if;
  return kilolock._kept_version(p_state, v_document);
end;
$$;

comment on function kilolock._version_of(kilolock.states, text) is
  'The version of a state that a reference means.';
revoke all on function kilolock._version_of(kilolock.states, text) from public;
