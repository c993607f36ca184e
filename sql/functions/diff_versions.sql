-- What is different between two versions of a state, resource by resource, either way in time.
--
-- A resource is told by its id, so that one that moved shows as one row with both addresses. A version is a number, or text:
-- whatever _version_of reads.
--
-- Raises  KLN01  no such state
--         KLN03  no such version of it, or it was pruned
drop function if exists kilolock.diff_versions(text, bigint, bigint);
create or replace function kilolock.diff_versions(p_state text, p_from text, p_to text)
  returns table (change text, address text, deposed_key text, type text, from_address text, from_attributes jsonb,
    to_attributes jsonb, resource_id bigint, from_status text, to_status text, from_provider text, to_provider text,
    from_schema_version bigint, to_schema_version bigint, from_sensitive_paths jsonb, to_sensitive_paths jsonb)
  language plpgsql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_from kilolock.version_documents := kilolock._named_version(p_state, p_from);
  v_to   kilolock.version_documents := kilolock._named_version(p_state, p_to);
begin
  return query
    select c.change, c.address, c.deposed_key, c.type, c.from_address, c.from_attributes, c.to_attributes, c.resource_id,
           c.from_status, c.to_status, c.from_provider, c.to_provider, c.from_schema_version, c.to_schema_version,
           c.from_sensitive_paths, c.to_sensitive_paths
    from kilolock._changed_resources(v_from.state_id, v_from.version, v_to.version) c
    order by c.address, c.deposed_key nulls first;
end;
$$;

comment on function kilolock.diff_versions(text, text, text) is
  'What is different between two versions of a state, written in any way, resource by resource.';
revoke all on function kilolock.diff_versions(text, text, text) from public;
grant execute on function kilolock.diff_versions(text, text, text) to kilolock_reader, kilolock_app;

create or replace function kilolock.diff_versions(p_state text, p_from bigint, p_to bigint)
  returns table (change text, address text, deposed_key text, type text, from_address text, from_attributes jsonb,
    to_attributes jsonb, resource_id bigint, from_status text, to_status text, from_provider text, to_provider text,
    from_schema_version bigint, to_schema_version bigint, from_sensitive_paths jsonb, to_sensitive_paths jsonb)
  language sql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
as $$
  select d.*
  from kilolock.diff_versions(p_state, coalesce(p_from::text, ''), coalesce(p_to::text, '')) d
$$;

comment on function kilolock.diff_versions(text, bigint, bigint) is
  'What is different between two versions of a state, resource by resource.';
revoke all on function kilolock.diff_versions(text, bigint, bigint) from public;
grant execute on function kilolock.diff_versions(text, bigint, bigint) to kilolock_reader, kilolock_app;
