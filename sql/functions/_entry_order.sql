-- The sort key of an instance (_instance_order), read off its text as Terraform writes it: its key stands first.
create or replace function kilolock._entry_order(p_instance text)
  returns bytea
  language sql
  immutable
as $$
  select kilolock._instance_order(
    case when starts_with(k.line, '          "index_key": ') then kilolock._read_json(rtrim(substr(k.line, 24), ','), true) end,
    case when strpos(p_instance, e'\n          "deposed": "') > 0
      then split_part(split_part(p_instance, e'\n          "deposed": "', 2), '"', 1) end)
  from (select split_part(p_instance, e'\n', 3) as line offset 0) k
$$;

comment on function kilolock._entry_order(text) is
  'The sort key of an instance, read off its text.';
revoke all on function kilolock._entry_order(text) from public;
