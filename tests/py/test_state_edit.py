"""kl state and kl rollback resource: parts of a state edited without Terraform."""

from __future__ import annotations

import json
import re
from typing import Any

import document as model
import psycopg
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from test_cli import Kl, ask, failed, kl  # noqa: F401
from test_delta import expected_rows
from test_http import STATES, lock_info
from test_write_path import LIVE, documents, encode, get, layout, quote, rows_of, write

STEP = re.compile(r'module\.([^.\[]+)(\["(?:[^"\\]|\\.)*"\]|\[[0-9]+\])?\.?')
counter = iter(range(10**6))


@pytest.fixture(scope="module")
def connection(make_database: Any) -> Any:
    with psycopg.connect(make_database(), autocommit=True) as conn:
        yield conn


def act(conn: psycopg.Connection[Any], function: str, **request: Any) -> dict[str, Any]:
    row = conn.execute(
        f"select kilolock.{function}(%s, 'tester')",
        (json.dumps(request | {"apply": True}),),
    ).fetchone()
    assert row
    return dict(row[0])


def config(address: str) -> str:
    return re.sub(r'\["(?:[^"\\]|\\.)*"\]|\[[0-9]+\]', "", address)


def related(one: str, other: str) -> bool:
    """Whether two module paths are of one instance, as far as they go together."""
    if "[" not in one or "[" not in other:
        return True
    for (name, key), (other_name, other_key) in zip(
        STEP.findall(one), STEP.findall(other), strict=False
    ):
        if name != other_name:
            return True
        if key != other_key:
            return False
    return True


class Place:
    """An instance of a document, and where it stands."""

    def __init__(self, block: dict[str, Any], instance: dict[str, Any]) -> None:
        self.module = block.get("module", "")
        self.mode, self.type, self.name = block["mode"], block["type"], block["name"]
        self.key, self.deposed = instance.get("index_key"), instance.get("deposed", "")

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other)

    def block(self) -> str:
        parts = (self.module, "data" if self.mode == "data" else "", self.type, self.name)
        return ".".join(p for p in parts if p)

    def address(self) -> str:
        return self.block() + ("" if self.key is None else quote(self.key))

    def is_in(self, wanted: str) -> bool:
        return wanted in (self.address(), self.block(), self.module) or self.module.startswith(
            (f"{wanted}.", f"{wanted}[")
        )


def places(document: dict[str, Any]) -> list[Place]:
    return [Place(b, i) for b in document["resources"] for i in b["instances"]]


key = (
    st.none()
    | st.integers(0, 3)
    | st.sampled_from(["", "a", "x.y", 'q"[0]', "${z}", "%%{", "é\n", "\u2028\\"])
)
target = st.tuples(
    st.sampled_from(["", "module.m", "module.new", 'module.m["a"]', "module.m[0].module.q"]),
    st.sampled_from("abcz"),
    key,
)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    documents(),
    layout,
    st.integers(0, 30),
    st.sampled_from(["instance", "block", "module"]),
    target,
)
def test_a_move_gives_what_an_independent_one_gives(
    connection: Any, drawn: dict[str, Any], how: Any, pick: int, kind: str, to: Any
) -> None:
    body = encode(drawn | {"serial": 7}, **how) + b"\n"
    document = json.loads(body)
    there = places(document)
    assume(there)
    chosen = there[pick % len(there)]
    module, name, index_key = to
    if kind == "module":
        assume(chosen.module and module)
        source, destination = chosen.module, module
        several = not source.endswith("]") and destination.endswith("]")
        several = several and any(p.module.startswith(f"{source}[") for p in there)
    else:
        source = chosen.address() if kind == "instance" else chosen.block()
        new = Place({"module": module, "mode": chosen.mode, "type": "test", "name": name}, {})
        new.key = index_key
        destination = new.address()
        one = any(p.address() == source for p in there)
        several = not one and index_key is not None
    assume(source != destination)

    moved: list[tuple[Place, Place]] = []
    for place in there:
        if place.is_in(source) and (kind == "module" or not one or place.address() == source):
            after = Place(vars(place), {"index_key": place.key, "deposed": place.deposed})
            if kind == "module":
                after.module = destination + place.module[len(source) :]
            else:
                after.module, after.name = module, name
                after.key = index_key if one else place.key
            moved.append((place, after))
    staying = [p for p in there if not any(p is m for m, _ in moved)]
    taken = {p.address() for p in staying} & {n.address() for _, n in moved}

    state = f"move-{next(counter)}"
    write(connection, state, body)
    ids = dict(
        connection.execute(
            "select r.address || '/' || coalesce(r.deposed_key, ''), r.id"
            " from kilolock.current_resources r where r.state_name = %s",
            (state,),
        ).fetchall()
    )
    request = {"state": state, "from": source, "to": destination}
    if several or taken:
        with pytest.raises(psycopg.Error) as caught:
            act(connection, "move_resource", **request)
        assert caught.value.sqlstate == ("KLB21" if several else "KLC22")
        assert get(connection, state, None) == body
        return
    act(connection, "move_resource", **request)

    wanted = moved_document(body, moved, staying)
    got = get(connection, state, None).decode()
    laid_out = model.render(model.lay_out(model.parse(body.decode()))) + "\n" == body.decode()
    assert got == wanted if laid_out else model.parse(got) == model.parse(wanted)
    assert rows_of(connection, LIVE, state) == expected_rows(json.loads(got))
    after = dict(
        connection.execute(
            "select r.address || '/' || coalesce(r.deposed_key, ''), r.id"
            " from kilolock.current_resources r where r.state_name = %s",
            (state,),
        ).fetchall()
    )
    for old, new in moved:
        assert after[f"{new.address()}/{new.deposed}"] == ids[f"{old.address()}/{old.deposed}"]
    for place in staying:
        at = f"{place.address()}/{place.deposed}"
        assert after[at] == ids[at]


def moved_document(body: bytes, moved: list[tuple[Place, Place]], staying: list[Place]) -> str:
    """The document after a move, by taking every instance out and putting it in again."""
    tree = model.lay_out(model.parse(body.decode()))
    delta: dict[str, Any] = {"put": []}
    removed = []
    for block in tree.get("resources"):
        header = {k: model.plain(block.get(k)) or "" for k in ("module", "mode", "type", "name")}
        for instance in block.get("instances"):
            fields = {k: model.plain(instance.get(k)) for k in ("index_key", "deposed")}
            place = Place(header, {k: v for k, v in fields.items() if v is not None})
            new = next((n for o, n in moved if o == place), None)
            at = new or place
            edited = model.Members(instance)
            if at.key != place.key:
                edited[:] = [m for m in instance if m[0] != '"index_key"']
                if at.key is not None:
                    token = model.token(at.key) if isinstance(at.key, str) else str(at.key)
                    edited.insert(0, ('"index_key"', token))
            renamed = rename(instance.get("dependencies"), place, moved, staying)
            if renamed is not None:
                edited.put("dependencies", renamed)
            if new or renamed is not None:
                put = {
                    "module": at.module,
                    "mode": at.mode,
                    "type": at.type,
                    "name": at.name,
                    "provider": model.plain(block.get("provider")),
                    "instance": model.render(edited),
                }
                delta["put"].append(put)
            if new:
                removed.append((model.block_key(block), model.instance_key(instance)))
    # Both are in the order of the document. What another moves to is not removed.
    new = [n for _, n in moved]
    left = [r for r, (old, _) in zip(removed, moved, strict=True) if old not in new]
    return model.edit(body.decode(), delta, left, 8)


def rename(
    tokens: Any, place: Place, moved: list[tuple[Place, Place]], staying: list[Place]
) -> list[str] | None:
    if not isinstance(tokens, list):
        return None
    result: list[str] = []
    changed = False
    for token in tokens:
        name = model.plain(token)
        names = {
            config(new.block())
            for old, new in moved
            if config(old.block()) == name and related(place.module, old.module)
        }
        if names:
            names |= {
                name
                for p in staying
                if config(p.block()) == name and related(place.module, p.module)
            }
        changed |= names not in (set(), {name})
        for new_token in [model.token(n) for n in sorted(names)] or [token]:
            if new_token not in result:
                result.append(new_token)
    return result if changed else None


# The commands


def post(kld: Any, serial: int, *blocks: dict[str, Any], state: str = "prod") -> None:
    body = {
        "version": 4,
        "terraform_version": "1.11.4",
        "serial": serial,
        "lineage": "a",
        "outputs": {},
        "resources": list(blocks),
        "check_results": None,
    }
    status, _, answer = kld.request("POST", f"{STATES}/{state}", json.dumps(body, indent=2) + "\n")
    assert status == 200, answer


def block(name: str, *instances: dict[str, Any], **more: Any) -> dict[str, Any]:
    made = [
        {"schema_version": 0, "attributes": {"id": f"{name}-{n}"}} | instance
        for n, instance in enumerate(instances or [{}])
    ]
    header = {"mode": "managed", "type": "test", "name": name, "provider": "p"} | more
    return header | {"instances": made}


def listed(kl: Kl, *words: str) -> list[str]:  # noqa: F811
    done = kl("state", "list", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_state_list_names_addresses_as_terraform_does(ask: Kl, kld: Any) -> None:  # noqa: F811
    post(
        kld,
        1,
        block("b", {"index_key": 10}, {"index_key": 9}),
        block("a"),
        block("d", mode="data"),
        block(
            "k", {"index_key": "x\ny"}, {"index_key": "x\ny", "deposed": "d1"}, module="module.m"
        ),
    )
    assert listed(ask, "prod") == [
        "data.test.d",
        "test.a",
        "test.b[9]",
        "test.b[10]",
        'module.m.test.k["x\\ny"]',
    ]
    assert listed(ask, "prod", "module.m", "test.a") == ["test.a", 'module.m.test.k["x\\ny"]']
    rows = json.loads(ask("state", "list", "prod", "module.m", "--format", "json").stdout)
    assert [row["deposed_key"] for row in rows] == [None, "d1"]
    failed(ask("state", "list", "prod", "test.q"), 3)
    failed(ask("state", "list", "nope"), 3)


def test_a_word_is_an_address_where_a_directory_has_a_state(kl: Kl, kld: Any) -> None:  # noqa: F811
    kl.env["KL_STATE_URL"] = f"{kld.url}{STATES}/prod"
    post(kld, 1, block("a"), block("b"))
    post(kld, 1, block("c"), state="test.b")
    assert listed(kl) == ["test.a", "test.b"]
    assert listed(kl, "test.a") == ["test.a"]
    assert listed(kl, "test.b") == ["test.c"]
    assert listed(kl, "prod", "test.b") == ["test.b"]
    assert "test-a" not in kl("state", "show", "test.a").stdout
    assert '"a-0"' in kl("state", "show", "test.a").stdout


def test_state_show_hides_what_is_sensitive(ask: Kl, kld: Any) -> None:  # noqa: F811
    attributes = {
        "id": "a",
        "big": 12345678901234567890,
        "none": None,
        "tags": {"x y": ["1", {"n": 1.50}], "empty": {}},
        "password": "hunter2",
        "nested": {"secret": "hunter2", "open": True},
    }
    paths = [
        [{"type": "get_attr", "value": "password"}],
        [{"type": "get_attr", "value": "nested"}, {"type": "get_attr", "value": "secret"}],
    ]
    instance = {"attributes": attributes, "sensitive_attributes": paths, "status": "tainted"}
    post(kld, 1, block("a", instance, {"deposed": "d1"}))
    done = ask("state", "show", "prod", "test.a")
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout
        == """\
# test.a: (tainted)
resource "test" "a" {
    big      = 12345678901234567890
    id       = "a"
    nested   = {
        open   = true
        secret = (sensitive value)
    }
    password = (sensitive value)
    tags     = {
        empty = {}
        "x y" = [
            "1",
            {
                n = 1.5
            },
        ]
    }
}

# test.a: (deposed d1)
resource "test" "a" {
    id = "a-1"
}
"""
    )
    for fmt in ("json", "csv"):
        text = ask("state", "show", "prod", "test.a", "--format", fmt).stdout
        assert "hunter2" not in text and "sha256" not in text
        assert text.count("(sensitive value)") == 2
    failed(ask("state", "show", "prod", "test.q"), 3)
    failed(ask("state", "show", "prod", "test.a", "test.b"), 2)


def test_state_mv_shows_then_moves(ask: Kl, kld: Any) -> None:  # noqa: F811
    user = {"dependencies": ["test.base"]}
    post(kld, 1, block("base"), block("user", user))
    args = ("state", "mv", "prod", "--from", "test.base", "--to", "module.n.test.base")
    done = ask(*args)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].split() == ["move", "module.n.test.base", "test.base"]
    assert "What depends on it follows:\n  test.user\n1 moved" in done.stderr
    assert done.stderr.endswith("Nothing is changed yet; --apply does it.\n")
    assert listed(ask, "prod") == ["test.base", "test.user"]
    assert "pass --yes" in ask(*args, "--apply").stderr
    assert ask(*args, "--apply", "--yes").returncode == 0
    assert listed(ask, "prod") == ["test.user", "module.n.test.base"]
    body = json.loads(kld.request("GET", f"{STATES}/prod")[2])
    assert body["serial"] == 2
    assert body["resources"][0]["instances"][0]["dependencies"] == ["module.n.test.base"]
    assert "has no resource" in failed(ask(*args, "--apply", "--yes"), 3)
    taken = ("state", "mv", "prod", "--from", "test.user", "--to", "module.n.test.base", "--yes")
    assert "already" in failed(ask(*taken), 4)
    other = ("state", "mv", "prod", "--from", "test.user", "--to", "other.user")
    assert "another type" in failed(ask(*other), 2) or "cannot become" in failed(ask(*other), 2)


def test_state_rm_shows_then_removes_and_rollback_brings_back(ask: Kl, kld: Any) -> None:  # noqa: F811
    post(
        kld, 1, block("a"), block("b", {"dependencies": ["test.a"]}), block("c", module="module.m")
    )
    args = ("state", "rm", "prod", "--address", "test.a", "--address", "module.m")
    done = ask(*args)
    assert done.returncode == 0, done.stderr
    assert [line.split() for line in done.stdout.splitlines()[1:]] == [
        ["delete", "module.m.test.c"],
        ["delete", "test.a"],
    ]
    assert "Live resources that depend on it:\n  test.b (on test.a)\n" in done.stderr
    assert ask(*args, "--apply", "--yes").returncode == 0
    assert listed(ask, "prod") == ["test.b"]
    failed(ask(*args, "--apply", "--yes"), 3)

    args = ("rollback", "resource", "prod", "--address", "test.a", "--to", "1")
    done = ask(*args)
    assert done.stdout.splitlines()[1].split() == ["create", "test.a"]
    assert "test.b (on test.a)" in done.stderr
    assert ask(*args, "--apply", "--yes").returncode == 0
    assert listed(ask, "prod") == ["test.a", "test.b"]
    assert "nothing to change" in ask(*args, "--apply", "--yes").stderr
    strict = ("rollback", "resource", "--state", "prod", "--address", "test.a", "--to", "2")
    assert "depends on it" in failed(ask(*strict, "--strict"), 4)
    failed(ask("rollback", "resource", "prod", "--address", "test.q", "--to", "1"), 3)


def test_edits_are_refused_under_anothers_lock(ask: Kl, kld: Any) -> None:  # noqa: F811
    post(kld, 1, block("a"))
    post(kld, 2, block("a", {"attributes": {"id": "other"}}))
    assert kld.request("LOCK", f"{STATES}/prod", lock_info("x"))[0] == 200
    before = kld.request("GET", f"{STATES}/prod")[2]
    for args in (
        ("state", "rm", "prod", "--address", "test.a"),
        ("state", "mv", "prod", "--from", "test.a", "--to", "test.b"),
        ("rollback", "resource", "prod", "--address", "test.a", "--to", "1"),
    ):
        assert ask(*args).returncode == 0
        assert "locked by" in failed(ask(*args, "--apply", "--yes"), 5)
    assert kld.request("GET", f"{STATES}/prod")[2] == before


CONFIGURATION = """
resource "terraform_data" "base" {
  input = "base"
}

resource "terraform_data" "pool" {
  count = 2
  input = terraform_data.base.output
}

module "app" {
  source = "./app"
  for_each = toset(["a.b", "c"])
  input  = terraform_data.pool[0].output
}
"""
MODULE = """
variable "input" {}
resource "terraform_data" "inner" {
  input = var.input
}
resource "terraform_data" "outer" {
  input = terraform_data.inner.output
}
"""


def test_plan_shows_no_changes_after_a_move(configure: Any, kld: Any) -> None:
    work = configure()
    work.backend(f"{kld.url}/v1/states/prod")
    (work.folder / "app").mkdir()
    work.write("app/main.tf", MODULE)
    work.write("main.tf", CONFIGURATION)
    work.init()
    work.apply()
    for source, destination in (
        ("terraform_data.base", "terraform_data.ground"),
        ("terraform_data.pool[0]", 'terraform_data.pool["x"]'),
        ("terraform_data.pool[1]", 'terraform_data.pool["y.z"]'),
        ("module.app", "module.service"),
    ):
        work.kl("state", "mv", "--from", source, "--to", destination, "--apply", "--yes")
    text = CONFIGURATION.replace("base", "ground").replace('"ground"\n}', '"base"\n}')
    text = text.replace("count = 2", 'for_each = toset(["x", "y.z"])').replace(
        "pool[0]", 'pool["x"]'
    )
    work.write("main.tf", text.replace('module "app"', 'module "service"'))
    work.init()
    assert "No changes" in work.run("plan", "-input=false")

    # Terraform's own writing of the state changes nothing but the serial.
    before = json.loads(kld.request("GET", f"{STATES}/prod")[2])
    instances = [i for b in before["resources"] for i in b["instances"]]
    assert {d for i in instances for d in i.get("dependencies", [])} == {
        "terraform_data.ground",
        "terraform_data.pool",
        "module.service.terraform_data.inner",
    }
    work.run("untaint", "terraform_data.ground", status=1)
    work.run("taint", "terraform_data.ground")
    work.run("untaint", "terraform_data.ground")
    after = json.loads(kld.request("GET", f"{STATES}/prod")[2])
    assert after == {**before, "serial": after["serial"]}, "Terraform would write it likewise"

    work.kl("state", "rm", "--address", 'terraform_data.pool["x"]', "--apply", "--yes")
    assert "1 to add" in work.run("plan", "-input=false")
    work.kl(
        "rollback", "resource", "--address", "terraform_data.pool", "--to", "@1", "--apply", "--yes"
    )
    assert "No changes" in work.run("plan", "-input=false")
