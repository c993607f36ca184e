-- Store a document as chunks, and make the short form of it that has to be parsed.
--
-- chunk_ids  the chunks in order; joined they are the document, whatever it holds
-- skeleton   the document with each instance replaced by a reference "kl<tag><digest><number of its piece>": valid JSON
--            exactly when the document is and every instance is; null where nothing could be replaced
--
-- A piece ends where Terraform's layout closes an instance: a line break never stands inside a JSON string, so a cut
-- is never inside one. A document in another layout is cut at ",{", for storage only. A chunk ends after a piece whose
-- digest has six zero bits, 64 pieces on average, so that an insertion moves no later border.
create or replace function kilolock._store_document(
  p_state_id bigint, p_salt text, p_text text, out chunk_ids bigint[], out skeleton text
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_end   constant text := e'\n        }';
  v_start constant text := e'\n        {\n';
  v_next  constant text := ',' || v_start;
  v_tag   constant text := '"kl' || substr(p_salt, 1, 8);
  v_laid_out constant boolean := strpos(p_text, v_end) > 0;
  v_cut   constant text := case when v_laid_out then v_end else ',{' end;
  v_head  constant integer := strpos(p_text, e'\n  "resources": [');
  -- The piece in which resources begin; objects before it are values of outputs.
  v_first constant integer := case when v_head > 0 and v_laid_out
    then cardinality(string_to_array(left(p_text, v_head), v_end)) else 2147483647 end;
begin
  with piece as materialized (
    select x.n, x.p, starts_with(x.p, v_next) and v_laid_out as is_middle,
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
         (select string_agg(
            case
              when p.n = z.n then p.p
              when p.n < v_first then p.p || v_cut
              when p.is_middle then ',' || v_tag || encode(p.digest, 'hex') || p.n || '"'
              when strpos(p.p, v_start) > 0 then
                left(p.p, strpos(p.p, v_start)) || v_tag
                  || encode(sha256(convert_to(p_salt || substr(p.p, strpos(p.p, v_start) + 9) || v_end, 'UTF8')), 'hex')
                  || p.n || '"'
              else p.p || v_cut
            end, '' order by p.n)
          from piece p
          cross join last z
          where v_first < z.n)
  into chunk_ids, skeleton;
end;
$$;

comment on function kilolock._store_document(bigint, text, text) is
  'Store a document''s new chunks; answers the list of all its chunks and the short form to parse.';
revoke all on function kilolock._store_document(bigint, text, text) from public;
