-- Whether a text is JSON for PostgreSQL, whose own IS JSON is younger than the releases that Kilolock runs on.
create or replace function kilolock._is_json(p_text text)
  returns boolean
  language plpgsql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
begin
  perform p_text::json;
  return true;
exception
  when invalid_text_representation or statement_too_complex then
    return false;
end;
$$;

comment on function kilolock._is_json(text) is 'Whether a text is JSON.';
revoke all on function kilolock._is_json(text) from public;
