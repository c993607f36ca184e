-- A for_each key as Terraform writes it inside the brackets of an address: module.m["a.b"].
--
-- Go's strconv-like quoting: backslash escapes, ${ and %{ doubled, what is not printable as \uXXXX.
create or replace function kilolock._quote_key(p_key text)
  returns text
  language sql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
  select case
    when p_key ~ '^[ !#-[\]-~]*$' and p_key !~ '[$%]\{' then '"' || p_key || '"'
    else '"' || coalesce((
      select string_agg(
               case
                 when c.ch in ('"', '\') then '\' || c.ch
                 when c.ch = e'\n' then '\n'
                 when c.ch = e'\r' then '\r'
                 when c.ch = e'\t' then '\t'
                 when c.ch in ('$', '%') and substr(p_key, c.n::integer + 1, 1) = '{' then c.ch || c.ch
                 when ascii(c.ch) between 32 and 126 then c.ch
                 when kilolock._is_printable(ascii(c.ch)) then c.ch
                 when ascii(c.ch) < 65536 then '\u' || lpad(to_hex(ascii(c.ch)), 4, '0')
                 else '\U' || lpad(to_hex(ascii(c.ch)), 8, '0')
               end, '' order by c.n)
      from string_to_table(p_key, null) with ordinality c(ch, n)), '') || '"'
  end
$$;

comment on function kilolock._quote_key(text) is
  'A for_each key quoted as in a resource address.';
revoke all on function kilolock._quote_key(text) from public;
