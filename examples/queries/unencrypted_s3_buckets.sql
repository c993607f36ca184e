-- Which S3 buckets have no encryption configured, in any state?
--
-- Encryption is a block of the bucket in old providers, a resource of its own that names the bucket since version 4,
-- and that one may live in another state.
select s.name as state, r.address, r.attributes ->> 'bucket' as bucket, r.attributes ->> 'region' as region
from states s
join resources r on r.state_version_id = s.current_version_id
where r.mode = 'managed'
  and r.type = 'aws_s3_bucket'
  and r.deposed_key is null
  and coalesce(r.attributes -> 'server_side_encryption_configuration', 'null') in ('null', '[]')
  and not exists (
    select
    from resources e
    where e.mode = 'managed'
      and e.type = 'aws_s3_bucket_server_side_encryption_configuration'
      and e.attributes ->> 'bucket' in (r.attributes ->> 'bucket', r.attributes ->> 'id'))
order by s.name, r.address;
