-- The parts of one instance of a state document, each looked up once.
--
-- rest is what has no column of its own; fields that Terraform writes as null or zero and older versions leave out are
-- not part of it, so that an upgrade of Terraform alone changes no row. problem says what Terraform would refuse.
create or replace function kilolock._read_instance(p_instance jsonb)
  returns table (provider jsonb, index_key jsonb, deposed text, status text, schema_version jsonb, paths jsonb, attributes jsonb,
    is_flat boolean, dependencies jsonb, rest jsonb, problem text)
  language sql
  immutable
as $$
  select case when jsonb_typeof(i.provider) = 'string' then i.provider end,
         case when jsonb_typeof(i.index_key) in ('string', 'number') then i.index_key end,
         i.deposed, i.status,
         case when jsonb_typeof(i.schema_version) = 'number' then i.schema_version end,
         case when jsonb_typeof(i.sensitive_attributes) = 'array' then i.sensitive_attributes else '[]' end,
         case
           when jsonb_typeof(i.attributes) = 'object' then i.attributes
           when jsonb_typeof(i.attributes_flat) = 'object' then i.attributes_flat
         end,
         jsonb_typeof(i.attributes) is distinct from 'object',
         case when jsonb_typeof(i.dependencies) = 'array' and i.dependencies <> '[]' then i.dependencies end,
         case
           when i.rest in ('{}', '{"identity_schema_version": 0}') then '{}'
           else i.rest - case when i.rest -> 'identity_schema_version' = '0' then 'identity_schema_version' else '' end
             - case when i.rest -> 'private' = 'null' then 'private' else '' end
         end,
         case
           when jsonb_typeof(p_instance) <> 'object' then 'no object'
           when jsonb_typeof(i.index_key) not in ('string', 'number', 'null')
             or jsonb_typeof(i.index_key) = 'number' and (i.index_key #>> '{}')::numeric % 1 <> 0
             then format('index_key %s', i.index_key)
           when i.status not in ('', 'tainted') then format('status "%s"', i.status)
           when jsonb_typeof(i.schema_version) not in ('number', 'null')
             or jsonb_typeof(i.schema_version) = 'number'
               and ((i.schema_version #>> '{}')::numeric not between 0 and 9223372036854775807
                 or (i.schema_version #>> '{}')::numeric % 1 <> 0)
             then format('schema_version %s', i.schema_version)
           when jsonb_typeof(i.attributes) not in ('object', 'null') then 'attributes that are no object'
         end
  from (
    select p_instance -> 'provider' as provider, p_instance -> 'index_key' as index_key, p_instance ->> 'deposed' as deposed,
           p_instance ->> 'status' as status, p_instance -> 'schema_version' as schema_version,
           p_instance -> 'attributes' as attributes, p_instance -> 'attributes_flat' as attributes_flat,
           p_instance -> 'sensitive_attributes' as sensitive_attributes, p_instance -> 'dependencies' as dependencies,
           case when jsonb_typeof(p_instance) = 'object' then p_instance - '{index_key,schema_version,status,deposed,attributes,
             attributes_flat,sensitive_attributes,dependencies,provider}'::text[] end as rest
    offset 0
  ) i
$$;

comment on function kilolock._read_instance(jsonb) is 'The parts of one instance of a state document.';
revoke all on function kilolock._read_instance(jsonb) from public;
