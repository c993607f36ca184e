-- The top level of a state document, checked.
--
-- Raises  KLB01  not version 4 of the format, or a header field of the wrong kind
create or replace function kilolock._read_header(
  p_document text,
  out serial numeric, out lineage text, out terraform_version text, out encrypted boolean
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_json json := p_document::json;
  v_top  record;
begin
  if json_typeof(v_json) <> 'object' then
    raise exception 'the body is a JSON %, not a Terraform state', json_typeof(v_json)
      using errcode = 'KLB01', hint = 'Nothing was stored. Send the state file as Terraform wrote it.';
  end if;
  select t.version, t.serial, t.lineage, t.terraform_version, json_typeof(t.encrypted_data) as encrypted,
         json_typeof(t.resources) as resources, json_typeof(t.outputs) as outputs
  into v_top
  from json_to_record(v_json) t(version json, serial json, lineage json, terraform_version json,
    encrypted_data json, resources json, outputs json);

  encrypted := coalesce(v_top.encrypted, '') = 'string';
  if v_top.version::text is distinct from '4' and not (encrypted and v_top.version is null) then
    raise exception 'the body has state format version %, only 4 is known', coalesce(v_top.version::text, '(none)')
      using errcode = 'KLB01',
            hint = 'Nothing was stored. Terraform 0.12 and later, and OpenTofu, write version 4; let one of them upgrade the state.';
  end if;
  if coalesce(v_top.serial::text, '0') !~ '^(null|[0-9]{1,20})$'
     or coalesce(nullif(v_top.serial::text, 'null'), '0')::numeric > 18446744073709551615 then
    raise exception 'serial is %, not a whole number of 64 bits', left(v_top.serial::text, 40) using errcode = 'KLB01';
  end if;
  if coalesce(json_typeof(v_top.lineage), 'string') not in ('string', 'null')
     or coalesce(json_typeof(v_top.terraform_version), 'string') not in ('string', 'null') then
    raise exception 'lineage and terraform_version must be strings' using errcode = 'KLB01';
  end if;
  if coalesce(v_top.resources, 'null') not in ('array', 'null') then
    raise exception 'resources is a JSON %, not an array', v_top.resources using errcode = 'KLB01';
  end if;
  if coalesce(v_top.outputs, 'null') not in ('object', 'null') then
    raise exception 'outputs is a JSON %, not an object', v_top.outputs using errcode = 'KLB01';
  end if;
  serial := coalesce(nullif(v_top.serial::text, 'null'), '0')::numeric;
  lineage := coalesce(v_top.lineage #>> '{}', '');
  terraform_version := coalesce(v_top.terraform_version #>> '{}', '');
end;
$$;

comment on function kilolock._read_header(text) is
  'Serial, lineage and Terraform version of a state document, checked.';
revoke all on function kilolock._read_header(text) from public;
