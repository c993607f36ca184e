-- A field of an action's request that is text; null where it is missing or null. Numbers are taken as they are written.
--
-- Raises  KLB06  another kind of value; or none, where p_required says that there must be one
create or replace function kilolock._requested_text(p_request jsonb, p_field text, p_required boolean default false)
  returns text
  language plpgsql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_kind constant text := coalesce(jsonb_typeof(p_request -> p_field), 'null');
begin
  if v_kind not in ('string', 'number', 'null') then
    raise exception '"%" of the request is a JSON %, not text', p_field, v_kind
      using errcode = 'KLB06', hint = format('Send JSON such as {"state": "prod", "%s": "…"}.', p_field);
  elsif p_required and v_kind = 'null' then
    raise exception 'the request has no "%"', p_field
      using errcode = 'KLB06', hint = format('Send JSON such as {"state": "prod", "%s": "…"}.', p_field);
  end if;
  return p_request ->> p_field;
end;
$$;

comment on function kilolock._requested_text(jsonb, text, boolean) is
  'A field of an action''s request that is text.';
revoke all on function kilolock._requested_text(jsonb, text, boolean) from public;
