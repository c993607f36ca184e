-- A field of an action's request that lists addresses: sorted, each once; none where the field is missing.
--
-- Raises  KLB06  it is no list of addresses
--         KLB11  the addresses are too many, too long or too deep
create or replace function kilolock._requested_addresses(p_request jsonb, p_field text)
  returns text[]
  language plpgsql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_limits    record;
  v_is_sound  boolean;
  v_is_small  boolean := false;
  v_addresses text[];
begin
  if coalesce(jsonb_typeof(p_request -> p_field), 'null') = 'null' then
    return '{}';
  elsif jsonb_typeof(p_request -> p_field) <> 'array' then
    raise exception 'the request''s "%" is no list of addresses', p_field
      using errcode = 'KLB06', hint = 'Send addresses such as "aws_vpc.main" or "module.network", whose instances they cover.';
  end if;
  select l.* into v_limits from kilolock._reservation_limits() l;
  -- Addresses before sums over them: what is too much must not be looked at in full.
  if jsonb_array_length(p_request -> p_field) <= v_limits.addresses then
    select coalesce(bool_and(jsonb_typeof(e.value) = 'string' and e.value <> '""'), true),
           coalesce(max(octet_length(e.value #>> '{}')) <= v_limits.address_bytes
             and sum(octet_length(e.value #>> '{}')::bigint
               * (1 + length(e.value #>> '{}') - length(translate(e.value #>> '{}', '.[', '')))) <= v_limits.path_bytes, true)
    into v_is_sound, v_is_small
    from jsonb_array_elements(p_request -> p_field) e(value);
    if not v_is_sound then
      raise exception 'the request''s "%" holds something that is no address', p_field
        using errcode = 'KLB06', hint = 'An address is a string that is not empty.';
    end if;
  end if;
  if not v_is_small then
    raise exception 'the request''s "%" holds too much: up to % addresses of up to % bytes can be reserved at once', p_field,
        v_limits.addresses, v_limits.address_bytes
      using errcode = 'KLB11', hint = 'Reserve modules or resources instead of each of their instances.';
  end if;
  select coalesce(array_agg(distinct e.address collate "C"), '{}') into v_addresses
  from jsonb_array_elements_text(p_request -> p_field) e(address);
  return v_addresses;
end;
$$;

comment on function kilolock._requested_addresses(jsonb, text) is
  'A list of addresses in an action''s request, sorted, each once.';
revoke all on function kilolock._requested_addresses(jsonb, text) from public;
