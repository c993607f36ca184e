-- Tags, versions whose documents were removed, and what outputs were.

set local role kilolock_owner;

alter table kilolock.version_documents add column pruned_at timestamptz;
comment on column kilolock.version_documents.pruned_at is
  'When its document was removed; the row stays to say who wrote the version.';

create table kilolock.tags (
  state_id bigint not null,
  name text not null,
  version bigint not null,
  actor text not null,
  created_at timestamptz not null default clock_timestamp(),
  constraint tags_pkey primary key (state_id, name),
  constraint tags_name_size check (octet_length(name) between 1 and 255),
  constraint tags_state_id_version_fkey foreign key (state_id, version)
    references kilolock.version_documents (state_id, version) on delete cascade
);
comment on table kilolock.tags is 'Names for versions; a tagged version is never pruned.';
comment on column kilolock.tags.actor is 'Who set it, at created_at.';
create index tags_state_id_version_idx on kilolock.tags (state_id, version);

-- Which version a state had when it was deleted.
create index events_state_id_deleted_version_idx on kilolock.events (state_id, ((payload ->> 'version')::bigint))
  where kind = 'state_delete';

-- What outputs were.

alter table kilolock.outputs add column since_version bigint;
comment on column kilolock.outputs.since_version is 'Version in which it became what it is now.';

create table kilolock.past_outputs (
  state_id bigint not null,
  from_version bigint not null,
  until_version bigint not null,
  name text not null,
  value jsonb,
  type jsonb,
  sensitive boolean not null,
  changed_serial numeric(20, 0) not null,
  constraint past_outputs_interval check (from_version < until_version),
  constraint past_outputs_state_id_fkey foreign key (state_id) references kilolock.states (id) on delete cascade
);
comment on table kilolock.past_outputs is
  'What outputs were: one row for each stretch of versions [from_version, until_version) that is over.';
create unique index past_outputs_state_id_until_version_name_idx on kilolock.past_outputs (state_id, until_version, md5(name));

-- The outputs of every version are written again, oldest first, from the documents. Terraform writes them before the
-- resources, so that only the first chunk of a large document is read. The functions called are those of the older release.
do $$
declare
  c_resources constant text := e'\n  "resources": [';
  v_step    record;
  v_text    text;
  v_outputs json;
begin
  delete from kilolock.outputs;
  for v_step in
    select d.state_id, d.version, d.serial, d.chunk_ids, z.salt
    from (
      select d.state_id, d.version, d.serial, d.chunk_ids, d.version as place
      from kilolock.version_documents d
      where not d.encrypted
      union all
      select e.state_id, (e.payload ->> 'version')::bigint + 1, (e.payload ->> 'serial')::numeric, null, (e.payload ->> 'version')::bigint
      from kilolock.events e
      where e.kind = 'state_delete'
    ) d
    join kilolock.state_salts z on z.state_id = d.state_id
    order by d.state_id, d.place, d.chunk_ids is null
  loop
    select string_agg(c.data, '' order by i.n) into v_text
    from unnest(v_step.chunk_ids) with ordinality i(id, n)
    join kilolock.document_chunks c on c.id = i.id
    where i.n <= coalesce((
      select min(h.n)
      from unnest(v_step.chunk_ids) with ordinality h(id, n)
      join kilolock.document_chunks k on k.id = h.id
      where h.n <= 3 and strpos(k.data, c_resources) > 0), 2147483647);
    begin
      if strpos(v_text, c_resources) > 0 and strpos(v_text, '"outputs"') between 1 and strpos(v_text, c_resources) then
        v_text := left(v_text, strpos(v_text, c_resources) - 1) || c_resources || ']}';
      end if;
      select case when json_typeof(d.outputs) = 'object' then d.outputs else '{}' end into v_outputs
      from json_to_record(coalesce(kilolock._clean_json(v_text), '{}')::json) d(outputs json);
    exception when data_exception then
      raise warning 'the outputs of version % of state % stay unknown', v_step.version, v_step.state_id;
      continue;
    end;

    with output as materialized (
      select distinct on (e.key) e.key as name,
             case when v.sensitive then kilolock._digest(v.value, v_step.salt) else v.value end as value, v.type, v.sensitive
      from json_each(v_outputs) with ordinality e(key, value, n)
      cross join lateral (select e.value::jsonb as output) o
      cross join lateral (
        select o.output -> 'value' as value, o.output -> 'type' as type,
               coalesce(o.output -> 'sensitive' = 'true', false) as sensitive
      ) v
      order by e.key, e.n desc
    ),
    gone as materialized (
      select o.*, n.name is null as removed
      from kilolock.outputs o
      left join output n on n.name = o.name
      where o.state_id = v_step.state_id
        and (n.name is null or (o.value, o.type, o.sensitive) is distinct from (n.value, n.type, n.sensitive))
    ),
    past as (
      insert into kilolock.past_outputs (state_id, from_version, until_version, name, value, type, sensitive, changed_serial)
      select g.state_id, g.since_version, v_step.version, g.name, g.value, g.type, g.sensitive, g.changed_serial
      from gone g
    ),
    removed as (
      delete from kilolock.outputs o
      using gone g
      where o.state_id = g.state_id and o.name = g.name and g.removed
    ),
    rewritten as (
      update kilolock.outputs o
      set value = n.value, type = n.type, sensitive = n.sensitive, changed_serial = v_step.serial, since_version = v_step.version
      from gone g
      join output n on n.name = g.name
      where o.state_id = g.state_id and o.name = g.name
    )
    insert into kilolock.outputs (state_id, name, value, type, sensitive, changed_serial, since_version)
    select v_step.state_id, n.name, n.value, n.type, n.sensitive, v_step.serial, v_step.version
    from output n
    where not exists (select from kilolock.outputs o where o.state_id = v_step.state_id and o.name = n.name);
  end loop;
end;
$$;

alter table kilolock.outputs alter column since_version set not null;
