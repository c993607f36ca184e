-- kilolock._covering_paths, _uncovered, _address_below: who covers whom
begin;

select tap.is((select array_agg(p order by p collate "C") from unnest(kilolock._covering_paths(x.have::text[])) p), x.want::text[], x.label)
from (values
  ('{}', null, 'nothing covers nothing'),
  ('{a}', '{a}', 'an address covers itself'),
  ('{a.b.c[0]}', '{a,a.b,a.b.c,a.b.c[0]}', 'what is before a dot or a bracket covers it'),
  ('{a.b[0],a.b[1]}', '{a,a.b,a.b[0],a.b[1]}', 'each once'),
  ('{a..b}', '{a,a.,a..b}', 'empty parts are parts'),
  ('{.a,[b}', '{.a,[b}', 'nothing is above what begins with a dot or a bracket'),
  ('{"m[\"x.y\"].z"}', '{m,"m[\"x","m[\"x.y\"]","m[\"x.y\"].z"}', 'keys are text like the rest')
) x(have, want, label);
select tap.is(kilolock._uncovered(x.have::text[], x.covers::text[]), x.want::text[], x.label)
from (values
  ('{a.b,a.c,b}', '{a}', '{b}', 'what an address covers is left out'),
  ('{a}', '{a.b}', '{a}', 'what is above it is not'),
  ('{ab,a[0]}', '{a}', '{ab}', 'nor what begins alike'),
  ('{a,b}', '{}', '{a,b}', 'nothing covers nothing'),
  ('{}', '{a}', '{}', 'nothing is covered by anything'),
  (null, '{a}', '{}', 'no list is an empty one')
) x(have, covers, want, label);
select tap.is(kilolock._address_below(x.have::text[], x.path), x.want, x.label)
from (values
  ('{a.b,a}', 'a', 'a', 'the address itself comes first'),
  ('{ab,a[0]}', 'a', 'a[0]', 'then one below it'),
  ('{ab}', 'a', null, 'one that begins alike is none')
) x(have, path, want, label);

rollback;
