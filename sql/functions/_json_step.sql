-- The place of an object's key as people write it: tags.Name, or tags["a.b"] where the key is no name.
create or replace function kilolock._json_step(p_parent text, p_key text)
  returns text
  language sql
  immutable
as $$
  select p_parent || case
    when p_key ~ '^[[:alpha:]_][[:alnum:]_-]*$' then case when p_parent = '' then '' else '.' end || p_key
    else '[' || kilolock._quote_key(p_key) || ']'
  end
$$;

comment on function kilolock._json_step(text, text) is
  'The place of an object''s key as people write it.';
revoke all on function kilolock._json_step(text, text) from public;
