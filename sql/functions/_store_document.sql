-- Store a document as chunks, and say what of it has to be parsed.
--
-- chunk_ids       the chunks in order; joined they are the document, whatever it holds
-- skeleton        the document with every instance whose text is a live row's replaced by "kl<tag><digest>"
-- has_references  whether there is any such
--
-- A piece ends where Terraform's layout closes an instance: a line break never stands inside a JSON string, so the
-- cut is never inside one. A document in another layout is cut at ",{" for storage only. A chunk ends after a piece
-- whose digest has six zero bits, 64 pieces on average, so that an insertion moves no later border.
create or replace function kilolock._store_document(
  p_state_id bigint, p_version_id bigint, p_salt text, p_text text,
  out chunk_ids bigint[], out skeleton text, out has_references boolean
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_end  constant text := e'\n        }';
  v_next constant text := e',\n        {\n';
  v_from constant text := e'\n        {\n';
  v_laid_out boolean := strpos(p_text, v_end) > 0;
  v_cut  text := case when v_laid_out then v_end else ',{' end;
  v_tag  text := substr(p_salt, 1, 8);
  v_live boolean := exists (select from kilolock.resources r where r.state_version_id = p_version_id) and v_laid_out;
begin
  with piece as materialized (
    select x.n, x.p, starts_with(x.p, v_next) and v_laid_out as middle,
           sha256(convert_to(p_salt || case
             when starts_with(x.p, v_next) and v_laid_out then substr(x.p, 11) || v_end
             else x.p || v_cut
           end, 'UTF8')) as digest
    from string_to_table(p_text, v_cut) with ordinality x(p, n)
  ),
  last as materialized (
    select max(p.n) as n from piece p
  ),
  placed as materialized (
    select p.n, d.digest,
           coalesce(sum(case when get_byte(d.digest, 0) & 63 = 0 then 1 else 0 end)
             over (order by p.n rows between unbounded preceding and 1 preceding), 0) as place
    from piece p
    cross join last z
    cross join lateral (
      -- The last piece has no terminator, which its digest has to show.
      select case when p.n < z.n then p.digest else sha256(convert_to(p_salt || p.p, 'UTF8')) end as digest
    ) d
  ),
  chunk as materialized (
    select p.place, sha256(string_agg(p.digest, '' order by p.n)) as digest
    from placed p
    group by p.place
  ),
  known as materialized (
    select c.place, d.id
    from chunk c
    join kilolock.document_chunks d on d.digest = c.digest and d.state_id = p_state_id
  ),
  added as (
    insert into kilolock.document_chunks (state_id, digest, data)
    select p_state_id, c.digest, min(t.data)
    from chunk c
    join (
      select w.place, string_agg(p.p || case when p.n = z.n then '' else v_cut end, '' order by p.n) as data
      from placed w
      cross join last z
      join piece p on p.n = w.n
      where w.place not in (select k.place from known k)
      group by w.place
    ) t on t.place = c.place
    group by c.digest
    returning id, digest
  )
  select (select array_agg(coalesce(k.id, a.id) order by c.place)
          from chunk c
          left join known k on k.place = c.place
          left join added a on a.digest = c.digest),
         case when v_live then (
           select string_agg(
             case
               when l.instance_hash is null then p.p || case when p.n = z.n then '' else v_cut end
               when p.middle then ',"kl' || v_tag || encode(l.instance_hash, 'hex') || '"'
               else left(p.p, f.at) || '"kl' || v_tag || encode(l.instance_hash, 'hex') || '"'
             end, '' order by p.n)
           from piece p
           cross join last z
           cross join lateral (
             select case when not p.middle and p.n < z.n then strpos(p.p, v_from) end as at
           ) f
           left join (
             select distinct r.instance_hash from kilolock.resources r where r.state_version_id = p_version_id
           ) l on p.n < z.n and l.instance_hash = case
             when p.middle then p.digest
             when f.at > 0 then sha256(convert_to(p_salt || substr(p.p, f.at + 9) || v_end, 'UTF8'))
           end
         ) end
  into chunk_ids, skeleton;
  has_references := skeleton is not null;
  skeleton := coalesce(skeleton, p_text);
end;
$$;

comment on function kilolock._store_document(bigint, bigint, text, text) is
  'Store a documents new chunks; answers the list of all its chunks and what is left to parse.';
revoke all on function kilolock._store_document(bigint, bigint, text, text) from public;
