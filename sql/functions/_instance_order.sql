-- A sort key for the instances of a block, as Terraform writes them: without a key, by number, by string; deposed last.
-- A NUL in a key counts as the U+FFFD that stands for it here.
create or replace function kilolock._instance_order(p_index_key jsonb, p_deposed text)
  returns bytea
  language sql
  immutable
as $$
  select case coalesce(jsonb_typeof(p_index_key), 'null')
           when 'null' then '\x00'::bytea
           when 'number' then '\x01'::bytea || int8send(
             greatest(least(trunc((p_index_key #>> '{}')::numeric), 9223372036854775807), -9223372036854775808)::bigint
               # (-9223372036854775808)::bigint)
           else '\x02'::bytea || convert_to(p_index_key #>> '{}', 'UTF8') || '\x00'::bytea
         end || convert_to(coalesce(p_deposed, ''), 'UTF8')
$$;

comment on function kilolock._instance_order(jsonb, text) is
  'A sort key for the instances of a block, in Terraform''s order.';
revoke all on function kilolock._instance_order(jsonb, text) from public;
