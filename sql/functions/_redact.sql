-- Attributes with the values under the given paths replaced by {"sensitive": "<salted digest>"}.
--
-- p_paths is sensitive_attributes as Terraform writes it: a list of paths, each a list of steps
-- {"type": "get_attr", "value": name} or {"type": "index", "value": {"value": key, "type": …}}. A path that leads
-- nowhere hides the deepest value it reaches: too much hidden is better than a secret shown.
create or replace function kilolock._redact(p_value jsonb, p_paths jsonb, p_salt text)
  returns jsonb
  language plpgsql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_value jsonb := p_value;
  v_path  jsonb;
  v_step  jsonb;
  v_key   text;
  v_at    text[];
begin
  if jsonb_typeof(p_value) is distinct from 'object' then
    return p_value;
  end if;
  for v_path in select p.value from jsonb_array_elements(p_paths) p loop
    v_at := '{}';
    if jsonb_typeof(v_path) = 'array' then
      for v_step in select s.value from jsonb_array_elements(v_path) s loop
        v_key := case
          when jsonb_typeof(v_step) <> 'object' then null
          when jsonb_typeof(v_step -> 'value') = 'object' then v_step #>> '{value,value}'
          else v_step ->> 'value'
        end;
        exit when v_key is null or v_value #> (v_at || v_key) is null;
        v_at := v_at || v_key;
      end loop;
    end if;
    if cardinality(v_at) > 0 then
      if v_value #> v_at <> 'null' then
        v_value := jsonb_set(v_value, v_at, kilolock._digest(v_value #> v_at, p_salt));
      end if;
    elsif jsonb_typeof(v_path) = 'array' and v_path = '[]' then
      return kilolock._digest(p_value, p_salt);
    end if;
  end loop;
  return v_value;
end;
$$;

comment on function kilolock._redact(jsonb, jsonb, text) is
  'Attributes with sensitive values replaced by salted digests.';
revoke all on function kilolock._redact(jsonb, jsonb, text) from public;
