-- kilolock.same_module_instance
begin;

select tap.is(kilolock.same_module_instance('module.m["a"]', 'module.m["a"]'), true, 'the same instance');
select tap.is(kilolock.same_module_instance('module.m["a"]', 'module.m["b"]'), false, 'another instance of the module');
select tap.is(kilolock.same_module_instance('module.m["a"].module.n', 'module.m["b"]'), false, 'a child of one, and the other');
select tap.is(kilolock.same_module_instance('module.m["a"]', 'module.n["b"]'), true, 'modules that share nothing');
select tap.is(kilolock.same_module_instance('module.x[0].module.m["a"]', 'module.y[0].module.m["b"]'), true, 'same names under different parents');
select tap.is(kilolock.same_module_instance('module.m["q\"[0]"].module.n', 'module.m["q\"[0]"]'), true, 'a key with quotes and brackets');
select tap.is(kilolock.same_module_instance('', 'module.m["a"]'), true, 'the root shares no module');

rollback;
