-- Store a document as the next version of a state, and make the rows match it: what every writer of a whole document calls
--
-- Called with the states row locked and the caller's right to write checked. Either all of it or nothing: the document,
-- the rows that show it, the version and the event. The document is kept byte for byte in chunks; work and storage follow
-- what changed:
--   1. The text is cut where instances end. Runs of pieces make chunks whose borders depend on their content; only
--      chunks not yet stored are stored (_store_document).
--   2. Each instance is replaced by a reference, which leaves a short document. That one is parsed.
--   3. The rows are made to match it; only instances whose text no live row has are parsed (_write_rows).
--
-- What PostgreSQL cannot decode makes step 3 fail; it is then done again from a cleaned copy. A reference in an odd place,
-- or one for what only looked like an instance, is resolved by going over the full text instead.
--
-- Plans are generic: a plan of its own for each call would hold a copy of the document for each place that names it, and
-- takes longer to make than a small state to write. They are kept while tables grow, so they go by indexes from the start.
--
-- p_size, p_md5  of the bytes of p_text
-- p_lock_id      the Terraform lock that the writer holds: any serial and lineage are taken then, as with p_force
-- p_version      the number to give it, where an archive brings one; it is higher than the head's. What was once written is
--                no longer held against a quota: import_archive checks the last
-- p_at           when it was written, where that was earlier
-- p_payload      more for the event
-- p_moves        which resources moved, where that is known (_write_rows)
--
-- Answers {"state", "version", "serial", "created", "updated", "deleted", "moved", "changed"}; the same document again
-- changes nothing.
--
-- Raises  KLB01  not a state: broken JSON, another version, a wrong shape
--         KLC03  without a lock: the serial is not higher than the head's
--         KLC04  without a lock: another lineage
--         KLQ01, KLQ02  more than a hard limit (_check_quota)
drop function if exists kilolock._write_document(kilolock.states, text, bigint, text, text, text, text, boolean, bigint, timestamptz, jsonb);
create or replace function kilolock._write_document(
  p_state kilolock.states, p_text text, p_size bigint, p_md5 text, p_source text, p_actor text,
  p_lock_id text default null, p_force boolean default false, p_version bigint default null,
  p_at timestamptz default null, p_payload jsonb default '{}', p_moves jsonb default '[]'
)
  returns json
  language plpgsql
  set search_path = pg_catalog, pg_temp
  set work_mem = '256MB'
  set hash_mem_multiplier = 2
  set enable_nestloop = off
  set enable_mergejoin = off
  set enable_seqscan = off
  set plan_cache_mode = force_generic_plan
  set jit = off
as $$
declare
  v_state    kilolock.states := p_state;
  v_head     kilolock.version_documents;
  v_new      kilolock.version_documents;
  v_version  constant bigint := coalesce(p_version, p_state.head_version + 1);
  v_at       constant timestamptz := coalesce(p_at, clock_timestamp());
  v_salt     text;
  v_document record;
  v_header   record;
  v_rows     record;
  v_parsed   text;
  v_clean    boolean := false;
  v_forced   boolean;
  v_digest   bytea;
begin
  select s.salt into v_salt from kilolock.state_salts s where s.state_id = v_state.id;
  select d.* into v_head from kilolock.version_documents d
  where d.state_id = v_state.id and d.id = v_state.current_version_id;

  select d.chunk_ids, d.skeleton, d.origin into v_document
  from kilolock._store_document(v_state.id, v_salt, p_text, convert_to(p_text, 'UTF8')) d;
  -- A version with a number of its own is one, even where the one between that differed is gone.
  if v_document.chunk_ids = v_head.chunk_ids and p_version is null then
    return json_build_object('state', v_state.name, 'version', v_state.head_version, 'serial', v_state.serial,
      'created', 0, 'updated', 0, 'deleted', 0, 'moved', 0, 'changed', false);
  end if;

  v_state.current_version_id := coalesce(v_state.current_version_id,
    nextval(pg_get_serial_sequence('kilolock.version_documents', 'id')));
  v_parsed := coalesce(v_document.skeleton, p_text);
  -- Terraform's own first lines, up to the serial, say nothing about rows.
  v_digest := sha256(convert_to(v_salt || substr(v_document.skeleton, 1 + coalesce(length(substring(left(v_document.skeleton, 1000) from
    '^\{\n  "version": 4,\n  "terraform_version": "[^"\\]*",\n  "serial": [0-9]+,')), 0)), 'UTF8'));
  loop
    begin
      select h.* into v_header from kilolock._read_header(v_parsed) h;

      v_forced := v_head.version is not null
        and (v_header.serial <= v_head.serial or v_header.lineage <> v_head.lineage);
      if v_forced and p_lock_id is null and not p_force then
        if v_header.lineage <> v_head.lineage and v_header.lineage <> '' and v_head.lineage <> '' then
          raise exception 'state "%" has lineage "%", the body has "%"', v_state.name, v_head.lineage, v_header.lineage
            using errcode = 'KLC04', hint = 'It is another state. Use another name, or force it: terraform state push -force, kl import --force.';
        elsif v_header.serial <= v_head.serial then
          raise exception 'state "%" has serial %, the body has %', v_state.name, v_head.serial, v_header.serial
            using errcode = 'KLC03', hint = 'Somebody wrote in between. Plan again, or force it: terraform state push -force, kl import --force.';
        end if;
      end if;

      if v_digest = v_head.rows_digest then
        select 0 as created, 0 as updated, 0 as moved, 0 as deleted, v_head.resource_count as resource_count,
               0 as managed_change, v_head.is_laid_out as is_laid_out into v_rows;
        exit;
      end if;
      select r.* into v_rows
      from kilolock._write_rows(v_state.id, v_state.current_version_id, v_version, v_header.serial,
        v_salt, v_parsed::json, case when v_document.skeleton is not null then convert_to(p_text, 'UTF8') end, v_document.origin,
        v_clean, v_at, p_moves) r;
      exit;
    exception
      when sqlstate 'KLX01' then
        -- An object that is no instance looked like one.
        v_parsed := case when v_clean then kilolock._clean_json(p_text) else p_text end;
        v_document.skeleton := null;
      when untranslatable_character or invalid_text_representation or numeric_value_out_of_range
          or invalid_parameter_value or statement_too_complex or program_limit_exceeded then
        -- The size of an index entry stands in the message in every language.
        continue when sqlstate = '54000' and sqlerrm ~ '2704|8191' and kilolock._narrow_inventory_index();
        if v_clean and v_document.skeleton is not null and kilolock._is_json(p_text) then
          -- What looked like the end of an instance stood inside of one.
          v_clean := false;
          v_parsed := p_text;
          v_document.skeleton := null;
          continue;
        end if;
        if v_clean then
          raise exception 'state "%": the body is not a Terraform state: %', v_state.name,
              case when starts_with(p_text, chr(65279)) then 'it begins with a byte order mark' else sqlerrm end
            using errcode = 'KLB01', hint = 'Nothing was stored. Send the state file as Terraform wrote it.';
        end if;
        v_clean := true;
        v_parsed := kilolock._clean_json(v_parsed);
        if v_parsed is null then
          raise exception 'state "%": the body is empty', v_state.name
            using errcode = 'KLB01', hint = 'Nothing was stored. Send the state file as Terraform wrote it.';
        end if;
    end;
  end loop;
  v_new := v_head;
  v_new.state_id := v_state.id;
  v_new.version := v_version;
  v_new.serial := v_header.serial;
  v_new.lineage := v_header.lineage;
  v_new.terraform_version := v_header.terraform_version;
  v_new.encrypted := v_header.encrypted;
  v_new.raw_size := p_size;
  v_new.raw_md5 := p_md5;
  v_new.resource_count := v_rows.resource_count;
  v_new.created_count := v_rows.created;
  v_new.updated_count := v_rows.updated + v_rows.moved;
  v_new.deleted_count := v_rows.deleted;
  v_new.source := p_source;
  v_new.actor := p_actor;
  v_new.created_at := v_at;
  v_new.chunk_ids := v_document.chunk_ids;
  v_new.rows_digest := v_digest;
  v_new.is_laid_out := v_rows.is_laid_out;
  return kilolock._record_version(v_state, v_new, v_rows.moved, v_rows.managed_change, p_payload || jsonb_strip_nulls(jsonb_build_object(
    'lock_id', p_lock_id, 'forced_over_serial', case when v_forced then v_head.serial end,
    'forced_over_lineage', case when v_header.lineage <> v_head.lineage then v_head.lineage end)), p_version is null);
end;
$$;

comment on function kilolock._write_document(kilolock.states, text, bigint, text, text, text, text, boolean, bigint, timestamptz, jsonb, jsonb) is
  'Store a document as the next version of a state and make the rows match it.';
revoke all on function kilolock._write_document(kilolock.states, text, bigint, text, text, text, text, boolean, bigint, timestamptz, jsonb, jsonb) from public;
