-- The key that stands between the brackets of an address: a number, or a string as Terraform quotes it.
create or replace function kilolock._read_key(p_key text)
  returns jsonb
  language plpgsql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_key  text := p_key;
  v_code text;
begin
  if p_key !~ '^"' then
    return p_key::jsonb;
  end if;
  loop
    -- JSON has no \U; an even number of backslashes before it means one in the key itself.
    v_code := (regexp_match(v_key, '(?<!\\)(?:\\\\)*\\U([0-9a-fA-F]{8})'))[1];
    exit when v_code is null;
    v_key := regexp_replace(v_key, '(?<!\\)((?:\\\\)*)\\U' || v_code, '\1' || chr(('x' || v_code)::bit(32)::integer));
  end loop;
  return kilolock._read_json(regexp_replace(v_key, '([$%])\1\{', '\1{', 'g'), true);
exception
  when invalid_text_representation or program_limit_exceeded or null_value_not_allowed then
    raise exception '% is no key of an address', p_key
      using errcode = 'KLB21', hint = 'Write it as terraform state list does, such as ["a.b"] or [0].';
end;
$$;

comment on function kilolock._read_key(text) is
  'The key between the brackets of an address.';
revoke all on function kilolock._read_key(text) from public;
