-- The bounds of what apply runs may ask for: one place for those who check them and for read_capabilities.
--
-- addresses      in one request, reads and writes together
-- address_bytes  of one address
-- path_bytes     of all addresses times their depth: what it costs to find who is above whom
-- queue_seconds  after which a request that nobody asks for again loses its place; terraform pauses up to 16 s between
--                two tries of a LOCK
create or replace function kilolock._reservation_limits(
  out min_lease_seconds integer, out lease_seconds integer, out max_lease_seconds integer, out queue_seconds integer,
  out addresses integer, out address_bytes integer, out path_bytes bigint, out listed integer, out summary_bytes integer
)
  language sql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
  select 5, 30, 600, 20, 100000, 16384, 256000000::bigint, 20, 262144
$$;

comment on function kilolock._reservation_limits() is
  'The bounds of leases, queue and reservations.';
revoke all on function kilolock._reservation_limits() from public;
