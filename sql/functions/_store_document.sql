-- Store a document as chunks, and make the short form of it that has to be parsed.
--
-- p_text     the document; p_bytes is the same in UTF-8, of which a part can be taken without looking at what stands before it
-- chunk_ids  the chunks in order; joined they are the document, whatever it holds; chunk_sizes has the bytes of each
-- skeleton   the document with each instance replaced by a reference "kl<tag><digest><first byte>+<bytes>": valid JSON
--            exactly when the document is and every instance is; null where nothing could be replaced
-- origin     bytes before the list of resources: references count from there, so that a longer serial changes none
--
-- A piece ends where Terraform's layout closes an instance: a line break never stands inside a JSON string, so a cut
-- is never inside one. A document in another layout is cut at ",{", for storage only. A chunk ends after a piece whose
-- digest has six zero bits, 64 pieces on average, so that an insertion moves no later border.
--
-- p_is_end   false where it is only a part of a document in Terraform's layout, from one border to another; p_text is then
--            without its last terminator, which p_bytes has
-- p_is_laid_out  whether the document is in Terraform's layout, where a part does not tell
drop function if exists kilolock._store_document(bigint, text, text);
drop function if exists kilolock._store_document(bigint, text, text, bytea);
create or replace function kilolock._store_document(
  p_state_id bigint, p_salt text, p_text text, p_bytes bytea, p_is_end boolean default true,
  p_is_laid_out boolean default null, out chunk_ids bigint[], out skeleton text,
  out origin integer, out chunk_sizes integer[]
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_end   constant text := e'\n        }';
  v_start constant text := e'\n        {\n';
  v_next  constant text := ',' || v_start;
  v_tag   constant text := '"kl' || substr(p_salt, 1, 8);
  v_laid_out constant boolean := coalesce(p_is_laid_out, strpos(p_text, v_end) > 0);
  v_cut   constant text := case when v_laid_out then v_end else ',{' end;
  v_head  constant integer := strpos(p_text, e'\n  "resources": [');
  -- The piece in which resources begin; objects before it are values of outputs.
  v_first constant integer := case when v_head > 0 and v_laid_out
    then cardinality(string_to_array(left(p_text, v_head), v_end)) else 2147483647 end;
begin
  origin := octet_length(left(p_text, v_head));
  -- What is carried from step to step is narrow: texts are cut out of p_bytes where they are used. left() and right() and
  -- not substr(), which looks at every character of its text.
  with piece as materialized (
    select y.n, y.size, y.start, y.is_middle, y.digest,
           case when y.is_middle then y.digest
             when y.start > 0 then sha256(convert_to(p_salt, 'UTF8') || substr(convert_to(y.p || v_cut, 'UTF8'), y.start + 1))
           end as instance_digest
    from (
      -- start is where in the piece its instance begins, in bytes. In most pieces it is all that follows a comma.
      select x.n, x.p, m.is_middle, octet_length(x.p) + octet_length(v_cut) as size,
             case when not v_laid_out then 0 when m.is_middle then 10
               else coalesce(octet_length(left(x.p, nullif(strpos(x.p, v_start), 0))) + 8, 0) end as start,
             sha256(convert_to(p_salt || case when m.is_middle then right(x.p, -10) else x.p end || v_cut, 'UTF8')) as digest
      from string_to_table(p_text, v_cut) with ordinality x(p, n)
      cross join lateral (select v_laid_out and starts_with(x.p, v_next) as is_middle) m
      offset 0
    ) y
  ),
  placed as materialized (
    select p.n, p.size, p.start, p.is_middle, p.is_last, p.digest, p.instance_digest,
           coalesce(sum(case when get_byte(p.digest, 0) & 63 = 0 then 1 else 0 end) over before, 0) as place,
           coalesce(sum(p.size) over before, 0)::integer as first_byte
    from (
      -- The last piece has no terminator, which its digest has to show.
      select p.n, p.size, p.start, p.is_middle, z.n is not null as is_last, p.instance_digest,
             case when z.n is null then p.digest else sha256(p.digest) end as digest
      from piece p
      left join (select max(l.n) as n from piece l) z on z.n = p.n and p_is_end
      offset 0
    ) p
    window before as (order by p.n rows between unbounded preceding and 1 preceding)
  ),
  chunk as materialized (
    select p.place, sha256(string_agg(p.digest, '' order by p.n)) as digest, min(p.first_byte) as first_byte,
           sum(p.size)::integer as size
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
    select p_state_id, c.digest, convert_from(substr(p_bytes, c.first_byte + 1, c.size), 'UTF8')
    from (
      select n.digest, min(n.first_byte) as first_byte, min(n.size) as size
      from chunk n
      where n.place not in (select k.place from known k)
      group by n.digest
    ) c
    returning id, digest
  ),
  part as (
    select p.n,
           case
             when p.start = 0 or p.is_last or p.n < v_first then convert_from(substr(p_bytes, p.first_byte + 1, p.size), 'UTF8')
             else concat(
               case when p.is_middle then ',' else convert_from(substr(p_bytes, p.first_byte + 1, p.start - 8), 'UTF8') end,
               v_tag, encode(substr(p.instance_digest, 1, 16), 'hex'), p.first_byte + p.start - origin, '+', p.size - p.start, '"')
           end as short
    from placed p
    where v_first < (select max(l.n) from piece l)
    offset 0
  )
  select (select array_agg(coalesce(k.id, a.id) order by c.place)
          from chunk c
          left join known k on k.place = c.place
          left join added a on a.digest = c.digest),
         (select string_agg(p.short, '' order by p.n) from part p),
         (select array_agg(c.size order by c.place) from chunk c)
  into chunk_ids, skeleton, chunk_sizes;
end;
$$;

comment on function kilolock._store_document(bigint, text, text, bytea, boolean, boolean) is
  'Store a document''s new chunks; answers the list of all its chunks and the short form to parse.';
revoke all on function kilolock._store_document(bigint, text, text, bytea, boolean, boolean) from public;
