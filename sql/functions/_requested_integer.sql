-- An integer field of an action's request.
--
-- Raises  KLB06  it is no integer, or out of bounds, or missing and there is no default
create or replace function kilolock._requested_integer(
  p_request jsonb, p_field text, p_min bigint, p_max bigint, p_default bigint default null
)
  returns bigint
  language plpgsql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_value numeric := p_default;
begin
  if jsonb_typeof(p_request -> p_field) = 'number' then
    v_value := p_request -> p_field;
  elsif coalesce(jsonb_typeof(p_request -> p_field), 'null') <> 'null' then
    v_value := null;
  end if;
  if v_value is null or v_value % 1 <> 0 or v_value not between p_min and p_max then
    raise exception 'the request''s "%" is not an integer from % to %', p_field, p_min, p_max
      using errcode = 'KLB06', hint = format('Send JSON such as {"state": "prod", "%s": %s}.', p_field, coalesce(p_default, p_min));
  end if;
  return v_value;
end;
$$;

comment on function kilolock._requested_integer(jsonb, text, bigint, bigint, bigint) is
  'An integer field of an action''s request.';
revoke all on function kilolock._requested_integer(jsonb, text, bigint, bigint, bigint) from public;
