"""kilolock/statefile.py: pieces of state files, and what changed between two of them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kilolock.statefile import StateFile, any_covers, delta, lay_out

TEXT = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ["a.b", 'q"q', "x\n        },\n        {", "]", "\\", "<&>", "é"]
)
NUMBER = st.integers(-(2**70), 2**70) | st.sampled_from([0.1, 1e300, -0.0])
VALUE = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(["one", "two", "three"])
KEYS = st.none() | st.integers(0, 3) | TEXT
INSTANCES = st.lists(
    st.tuples(KEYS, st.none() | st.sampled_from(["0000dead"]), st.dictionaries(TEXT, VALUE)),
    max_size=4,
    unique_by=lambda i: (json.dumps(i[0]), i[1]),
)
MODULES = st.none() | st.sampled_from(["module.m", 'module.m["k.]"].module.n[0]'])
BLOCKS = st.lists(
    st.tuples(MODULES, st.sampled_from(["managed", "data"]), NAMES, INSTANCES),
    max_size=5,
    unique_by=lambda b: b[:3],
)
CHECKS = st.dictionaries(NAMES, st.sampled_from(["pass", "fail", "unknown"]), max_size=3)


@st.composite
def documents(draw: Any) -> dict[str, Any]:
    resources = []
    for module, mode, name, instances in draw(BLOCKS):
        block = {"module": module} if module else {}
        block |= {"mode": mode, "type": "t", "name": name, "provider": 'provider["p"]'}
        block["instances"] = []
        for key, deposed, attributes in instances:
            instance: dict[str, Any] = {} if key is None else {"index_key": key}
            if deposed:
                instance["deposed"] = deposed
            block["instances"].append({**instance, "schema_version": 0, "attributes": attributes})
        resources.append(block)
    checks = [
        {"object_kind": "var", "config_addr": name, "status": status}
        for name, status in draw(CHECKS).items()
    ]
    return {
        "version": 4,
        "terraform_version": "1.11.4",
        "serial": draw(st.integers(0, 9)),
        "lineage": "l",
        "outputs": {n: {"value": v} for n, v in draw(st.dictionaries(TEXT, VALUE)).items()},
        "resources": resources,
        "check_results": checks or None,
    }


def formatted(document: dict[str, Any]) -> bytes:
    return json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"


def expected(document: dict[str, Any]) -> dict[Any, Any]:
    """An independent reading: the instances by block, key and deposed key."""
    return {
        (
            block.get("module", ""),
            block["mode"],
            block["name"],
            json.dumps(instance.get("index_key")),
            instance.get("deposed"),
        ): instance
        for block in document["resources"]
        for instance in block["instances"]
    }


def read(file: StateFile) -> dict[Any, Any]:
    found = {}
    for (_, deposed), piece in file.instances.items():
        instance = json.loads(piece.text)
        header = piece.header
        key = json.dumps(instance.get("index_key"))
        found[header.get("module", ""), header["mode"], header["name"], key, deposed] = instance
    return found


@settings(max_examples=50, deadline=None)
@given(documents())
def test_every_piece_of_a_file_is_found(document: dict[str, Any]) -> None:
    file = StateFile.of(formatted(document))
    assert read(file) == expected(document)
    assert {n: json.loads(t) for n, t in file.outputs.items()} == document["outputs"]
    assert len(file.checks) == len(document["check_results"] or [])
    assert (file.serial, file.lineage) == (document["serial"], "l")
    assert len(file.instances) == len(expected(document)), "two share an address"


@settings(max_examples=50, deadline=None)
@given(documents())
def test_a_file_of_another_layout_is_read_alike(document: dict[str, Any]) -> None:
    compact = json.dumps(document).encode()
    # Layout is all that changes: numbers and escapes stay as they were written.
    assert lay_out(compact) == json.dumps(document, indent=2).encode() + b"\n"
    assert lay_out(lay_out(compact)) == lay_out(compact)
    assert read(StateFile.of(compact)) == expected(document)
    both = StateFile.of(compact), StateFile.of(formatted(document))
    assert delta(*both, {"t", "data", "module.m"}) == {}
    assert read(StateFile.of(compact, both[1])) == expected(document)


@settings(max_examples=50, deadline=None)
@given(documents(), documents())
def test_a_delta_turns_one_file_into_the_other(one: dict[str, Any], two: dict[str, Any]) -> None:
    base, result = StateFile.of(formatted(one)), StateFile.of(formatted(two))
    found = delta(base, result, {"t", "data", "module.m"})
    instances = dict(base.instances)
    for gone in found.get("remove", ()):
        del instances[gone["address"], gone["deposed"]]
    after = read(StateFile(b"", instances))
    for put in found.get("put", ()):
        instance = json.loads(put["instance"])
        key = json.dumps(instance.get("index_key"))
        after[put["module"], put["mode"], put["name"], key, instance.get("deposed")] = instance
    assert after == expected(two)

    outputs = dict(one["outputs"])
    for name in found.get("outputs", {}).get("remove", ()):
        del outputs[name]
    for name, text in found.get("outputs", {}).get("put", {}).items():
        outputs[name] = json.loads(text)
    assert outputs == two["outputs"]

    checks = {c["config_addr"]: c["status"] for c in one["check_results"] or ()}
    for check in found.get("check_results", {}).get("remove", ()):
        del checks[check["config_addr"]]
    for text in found.get("check_results", {}).get("put", ()):
        checks[json.loads(text)["config_addr"]] = json.loads(text)["status"]
    # What was not looked at this time stays as it was.
    known = {c["config_addr"]: c["status"] for c in two["check_results"] or ()}
    assert {n: s for n, s in known.items() if s != "unknown"}.items() <= checks.items()
    assert checks.keys() <= known.keys()


def test_a_delta_has_only_what_is_to_be_written() -> None:
    def document(value: str) -> bytes:
        blocks = [
            {
                "mode": mode,
                "type": "t",
                "name": name,
                "provider": "p",
                "instances": [{"index_key": k, "attributes": {"x": value}} for k in ("a", "b")],
            }
            for mode, name in (("managed", "one"), ("managed", "two"), ("data", "one"))
        ]
        return formatted({"version": 4, "serial": 1, "lineage": "l", "resources": blocks})

    base, result = StateFile.of(document("before")), StateFile.of(document("after"))
    assert delta(base, result, set()) == {}
    found = delta(base, result, {'t.one["b"]', "data.t.one"})
    assert [(p["mode"], p["name"]) for p in found["put"]] == [
        ("managed", "one"),
        ("data", "one"),
        ("data", "one"),
    ]
    assert len(delta(base, StateFile.of(None), {"t.two"})["remove"]) == 2


def test_numbers_beyond_a_double_are_told_apart() -> None:
    def file(number: str) -> StateFile:
        text = '{"version": 4, "resources": [{"mode": "managed", "type": "t", "name": "n", '
        text += '"provider": "p", "instances": [{"attributes": {"x": %s}}]}]}'
        return StateFile.of((text % number).encode())

    assert delta(file("0.1234567890123456789"), file("0.1234567890123456788"), {"t.n"})
    assert not delta(file("1e400"), file("1E+400"), {"t.n"})
    assert delta(file("1e400"), file("1e401"), {"t.n"})


def test_what_covers_what() -> None:
    assert any_covers({"module.m"}, "module.m[0].t.n") and any_covers({"t.n"}, 't.n["a"]')
    assert not any_covers({"t.n"}, "t.nn") and not any_covers({"t.n[0]"}, "t.n")
    assert any_covers({"t.n"}, "t.n[0]") and any_covers({"module.m"}, "module.m.t.n")
    assert not any_covers({"t.n[0]"}, "t.n") and not any_covers(set(), "t.n")
