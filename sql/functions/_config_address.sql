-- A module path or an address without its keys, as the configuration and lists of dependencies have it.
create or replace function kilolock._config_address(p_address text)
  returns text
  language sql
  immutable
as $$
  select case when strpos(p_address, '[') > 0
    then regexp_replace(p_address, '\["(?:[^"\\]|\\.)*"\]|\[[0-9]+\]', '', 'g') else p_address end
$$;

comment on function kilolock._config_address(text) is
  'An address without its keys.';
revoke all on function kilolock._config_address(text) from public;
