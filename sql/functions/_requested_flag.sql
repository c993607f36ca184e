-- A field of an action's request that is true or false; false where it is missing or null.
--
-- Raises  KLB06  another kind of value
create or replace function kilolock._requested_flag(p_request jsonb, p_field text)
  returns boolean
  language plpgsql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
begin
  if coalesce(jsonb_typeof(p_request -> p_field), 'null') not in ('boolean', 'null') then
    raise exception '"%" of the request is a JSON %, not true or false', p_field, jsonb_typeof(p_request -> p_field)
      using errcode = 'KLB06', hint = format('Send JSON such as {"state": "prod", "%s": true}.', p_field);
  end if;
  return coalesce((p_request ->> p_field)::boolean, false);
end;
$$;

comment on function kilolock._requested_flag(jsonb, text) is
  'A field of an action''s request that is true or false.';
revoke all on function kilolock._requested_flag(jsonb, text) from public;
