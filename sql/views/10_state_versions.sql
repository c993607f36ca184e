-- Every version of every state, with its document; not those that were pruned.
--
-- raw_state is joined from its chunks only where a query asks for it. It holds what Terraform wrote, secrets too, so
-- only kilolock_state_reader may select it; kilolock_reader has every other column.
create view kilolock.state_versions as
select d.id, d.state_id, d.version, d.serial, d.lineage, d.terraform_version,
       (select string_agg(c.data, '' order by i.n)
        from unnest(d.chunk_ids) with ordinality i(id, n)
        join kilolock.document_chunks c on c.id = i.id)::json as raw_state,
       d.raw_size, d.raw_md5, d.resource_count, d.source, d.actor, d.created_at,
       d.created_count, d.updated_count, d.deleted_count, d.encrypted
from kilolock.version_documents d
where d.pruned_at is null;

comment on view kilolock.state_versions is
  'Every version of every state; the head is the one whose id is states.current_version_id, (state_id, version) is the durable name.';
comment on column kilolock.state_versions.raw_state is 'The document as Terraform wrote it. Holds secrets.';
comment on column kilolock.state_versions.raw_size is 'Bytes of the document.';
comment on column kilolock.state_versions.raw_md5 is 'MD5 of the document in hexadecimal digits.';
comment on column kilolock.state_versions.version is '1, 2, 3 …: the order of writes. A serial may repeat, a version never does.';
grant select (id, state_id, version, serial, lineage, terraform_version, raw_size, raw_md5, resource_count, source, actor,
  created_at, created_count, updated_count, deleted_count, encrypted) on kilolock.state_versions to kilolock_reader;
grant select on kilolock.state_versions to kilolock_state_reader;
