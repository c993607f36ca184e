-- Store a refreshed document as the next version, if anything in it drifted, and tell what did.
--
-- Called with the states row locked. A document without drift, which differs in its serial, its form or its outputs,
-- is not kept: what it wrote is rolled back. So is everything with p_keep false, which only looks.
--
-- changes is a JSON array of arrays [change, address, deposed_key, attribute, old_value, new_value, sensitive]
create or replace function kilolock._write_refresh(
  p_state kilolock.states, p_text text, p_actor text, p_lock_id text, p_keep boolean, p_payload jsonb,
  out version bigint, out drifted_count integer, out changes text
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_state  kilolock.states := p_state;
  v_answer json;
begin
  drifted_count := 0;
  changes := '[]';
  begin
    v_answer := kilolock._write_document(v_state, p_text, octet_length(p_text), md5(convert_to(p_text, 'UTF8')), 'refresh',
      p_actor, p_lock_id => p_lock_id, p_force => true, p_payload => p_payload);
    if (v_answer ->> 'changed')::boolean then
      v_state.head_version := (v_answer ->> 'version')::bigint;
      select count(distinct (r.address, r.deposed_key)),
             coalesce(json_agg(json_build_array(r.change, r.address, r.deposed_key, r.attribute, r.old_value, r.new_value,
               r.sensitive) order by r.address, r.deposed_key, r.attribute)::text, '[]')
      into drifted_count, changes
      from kilolock._refreshed(v_state) r;
    end if;
    if drifted_count = 0 or not p_keep then
      raise exception 'nothing is kept' using errcode = 'KLX02';
    end if;
    version := v_state.head_version;
  exception when sqlstate 'KLX02' then
    version := null;
  end;
end;
$$;

comment on function kilolock._write_refresh(kilolock.states, text, text, text, boolean, jsonb) is
  'Store a refreshed document if anything drifted, and tell what.';
revoke all on function kilolock._write_refresh(kilolock.states, text, text, text, boolean, jsonb) from public;
