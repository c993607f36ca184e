-- An address of a resource or a module in parts, and as Terraform writes it.
--
-- module_path  the modules of it with their keys; '' at the root
-- type, name   null where the address is a module's
-- index_key    null where there is none
--
-- Raises  KLB21  it is no address
create or replace function kilolock._read_address(
  p_address text,
  out address text, out module_path text, out mode text, out type text, out name text, out index_key jsonb
)
  language plpgsql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
declare
  c_name constant text := '([^]."[[:space:][:cntrl:]0-9-][^]."[[:space:][:cntrl:]]*)';
  c_key  constant text := '(?:\[("(?:[^"\\]|\\.)*"|[0-9]{1,18})\])?';
  v_rest text := p_address;
  v_part text[];
begin
  module_path := '';
  loop
    v_part := regexp_match(v_rest, '^(module\.' || c_name || c_key || ')(?:\.|$)');
    exit when v_part is null;
    module_path := concat_ws('.', nullif(module_path, ''), 'module.' || v_part[2])
      || coalesce('[' || kilolock._write_key(kilolock._read_key(v_part[3])) || ']', '');
    v_rest := substr(v_rest, length(v_part[1]) + 2);
  end loop;
  if v_rest <> '' or module_path = '' or right(p_address, 1) = '.' then
    v_part := regexp_match(v_rest, '^(data\.)?' || c_name || '\.' || c_name || c_key || '$');
    if v_part is null or p_address ~ '\.$' then
      raise exception '"%" is no address of a resource or a module', p_address
        using errcode = 'KLB21', hint = 'Write it as terraform state list does: module.app["a"].aws_vpc.main[0], keys in double quotes.';
    end if;
    mode := case when v_part[1] is null then 'managed' else 'data' end;
    type := v_part[2];
    name := v_part[3];
    index_key := kilolock._read_key(v_part[4]);
  end if;
  address := kilolock._write_address(module_path, mode, type, name, index_key);
end;
$$;

comment on function kilolock._read_address(text) is
  'An address of a resource or a module in parts.';
revoke all on function kilolock._read_address(text) from public;
