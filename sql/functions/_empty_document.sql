-- A state document in Terraform's layout that holds nothing yet.
create or replace function kilolock._empty_document(p_terraform_version text, p_lineage text)
  returns text
  language sql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
  select format(e'{\n  "version": 4,\n  "terraform_version": %s,\n  "serial": 0,\n  "lineage": %s,\n  "outputs": {},\n  "resources": [],\n  "check_results": null\n}\n',
    to_json(p_terraform_version), to_json(p_lineage))
$$;

comment on function kilolock._empty_document(text, text) is
  'A state document that holds nothing yet.';
revoke all on function kilolock._empty_document(text, text) from public;
