-- Whether a refresh of this head could tell what drifted.
--
-- Raises  KLC07  it is encrypted, so that it has no rows; or too large to come back in a request, which holds 256 MB as jsonb
create or replace function kilolock._check_refreshable(p_name text, p_head kilolock.version_documents)
  returns void
  language plpgsql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
begin
  if p_head.encrypted then
    raise exception 'state "%" is encrypted, so nobody but its owner can tell what drifted', p_name
      using errcode = 'KLC07', hint = 'Run tofu plan -refresh-only.';
  elsif p_head.raw_size > 200000000 then
    raise exception 'state "%" has % bytes, too many for a refresh', p_name, p_head.raw_size
      using errcode = 'KLC07', hint = 'Run terraform apply -refresh-only.';
  end if;
end;
$$;

comment on function kilolock._check_refreshable(text, kilolock.version_documents) is
  'Refuse a state whose drift cannot be told.';
revoke all on function kilolock._check_refreshable(text, kilolock.version_documents) from public;
