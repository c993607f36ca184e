-- kilolock.hide_digests
begin;

select tap.is(
  kilolock.hide_digests('{"a":{"sensitive":"sha256:00ff"},"b":[1,{"sensitive":"sha256:01"}],"c":{"sensitive":true}}'),
  '{"a":"(sensitive)","b":[1,"(sensitive)"],"c":{"sensitive":true}}'::jsonb, 'digests are hidden wherever they stand');
select tap.is(kilolock.hide_digests('{"sensitive":"sha256:00ff"}'), '"(sensitive)"'::jsonb, 'at the top too');
select tap.is(
  kilolock.hide_digests(jsonb_build_object('a', '{"sensitive": "sha256:00"}', 'n', 1.50)),
  jsonb_build_object('a', '{"sensitive": "sha256:00"}', 'n', 1.50), 'a text that looks like one stays');
select tap.is(kilolock.hide_digests('{"x":1}', true), '"(sensitive)"'::jsonb, 'what is sensitive is hidden as a whole');
select tap.is(kilolock.hide_digests(null, true), null::jsonb, 'nothing stays nothing');

rollback;
