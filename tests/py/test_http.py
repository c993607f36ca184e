"""What Terraform's http backend, an operator and a stranger get to see of kld."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import re
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from kilolock.config import ConfigError, check_auth, load

LINEAGE = "aaaaaaaa-0000-4000-8000-0000000000b1"
STATES = "/v1/states"


def document(serial: int = 1, *names: str, lineage: str = LINEAGE) -> bytes:
    """A state with one null_resource for each name."""
    resources = [
        {
            "mode": "managed",
            "type": "null_resource",
            "name": name,
            "provider": 'provider["registry.terraform.io/hashicorp/null"]',
            "instances": [{"schema_version": 0, "attributes": {"id": f"id-{name}"}}],
        }
        for name in names
    ]
    state = {
        "version": 4,
        "terraform_version": "1.11.4",
        "serial": serial,
        "lineage": lineage,
        "outputs": {},
        "resources": resources,
        "check_results": None,
    }
    return json.dumps(state, indent=2).encode() + b"\n"


def lock_info(lock_id: str, who: str = "ann@host-a") -> bytes:
    """A LockInfo as Terraform sends it."""
    info = {
        "ID": lock_id,
        "Operation": "OperationTypeApply",
        "Info": "",
        "Who": who,
        "Version": "1.11.4",
        "Created": "2026-03-04T05:06:07.890123456Z",
        "Path": "",
    }
    return json.dumps(info).encode()


def basic(user: str, password: str) -> dict[str, str]:
    """An Authorization header."""
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def error_of(body: bytes) -> dict[str, Any]:
    """The error that a refusal carries."""
    error: dict[str, Any] = json.loads(body)["error"]
    assert set(error) == {"code", "message", "hint"}
    assert error["message"]
    return error


def raw_request(kld: Any, data: bytes) -> bytes:
    """Send bytes as they are and read until the server closes."""
    with socket.create_connection((kld.host, kld.port), timeout=20) as sock:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        parts = []
        while part := sock.recv(65536):
            parts.append(part)
    return b"".join(parts)


def test_get_gives_back_every_byte_with_its_digest(kld: Any) -> None:
    body = document(1, "a", "b")
    assert kld.request("GET", f"{STATES}/s")[0] == 404
    assert kld.request("POST", f"{STATES}/s", body)[0] == 200
    status, headers, got = kld.request("GET", f"{STATES}/s")
    digest = hashlib.md5(body)
    assert (status, got) == (200, body)
    assert headers["content-type"] == "application/json"
    assert headers["content-length"] == str(len(body))
    assert headers["content-md5"] == base64.b64encode(digest.digest()).decode()
    assert headers["etag"] == f'"{digest.hexdigest()}"'
    status, of_head, nothing = kld.request("HEAD", f"{STATES}/s")
    assert (status, nothing) == (200, b"")
    assert {k: of_head[k] for k in ("content-length", "content-md5", "etag")} == {
        k: headers[k] for k in ("content-length", "content-md5", "etag")
    }
    assert kld.request("GET", f"{STATES}/s", headers={"If-None-Match": headers["etag"]})[0] == 304


def test_older_versions_stay_readable(kld: Any) -> None:
    first, second = document(1, "a"), document(2, "a", "b")
    for body in (first, second):
        assert kld.request("POST", f"{STATES}/s", body)[0] == 200
    assert kld.request("GET", "/v1/state-versions/s?version=1")[2] == first
    assert kld.request("GET", "/v1/state-versions/s?version=2")[2] == second
    assert kld.request("GET", "/v1/state-versions/s?version=3")[0] == 404
    assert kld.request("GET", "/v1/state-versions/s?version=x")[0] == 404
    assert kld.request("GET", "/v1/state-versions/s?version=")[0] == 400
    assert kld.request("GET", "/v1/state-versions/s")[0] == 400
    assert kld.request("GET", "/v1/state-versions/s?version=%401")[2] == first
    assert kld.request("GET", "/v1/state-versions/s?version=serial:2")[2] == second
    assert kld.request("GET", "/v1/state-versions/s?version=2100-01-01T00:00%2B01:00")[2] == second
    assert kld.request("GET", "/v1/state-versions/s?version=current")[2] == second


def test_delete_and_put(kld: Any) -> None:
    assert kld.request("PUT", f"{STATES}/s", document(1, "a"))[0] == 200
    assert kld.request("DELETE", f"{STATES}/s")[0] == 200
    assert kld.request("DELETE", f"{STATES}/s")[0] in (200, 404)
    assert kld.request("GET", f"{STATES}/s")[0] == 404


def test_the_holder_is_the_whole_body_of_a_423(kld: Any) -> None:
    holder = lock_info("holder", "böb@ci/42")
    assert kld.request("LOCK", f"{STATES}/s", holder)[0] == 200
    assert kld.request("LOCK", f"{STATES}/s", holder)[0] == 200
    for method, path, body in (
        ("LOCK", f"{STATES}/s", lock_info("other")),
        ("POST", f"{STATES}/s", document()),
    ):
        status, headers, answer = kld.request(method, path, body)
        assert status == 423
        assert headers["content-type"] == "application/json"
        assert json.loads(answer) == json.loads(holder)
    status, _, answer = kld.request("UNLOCK", f"{STATES}/s", lock_info("other"))
    assert status == 409
    assert "holder" in error_of(answer)["message"]
    assert kld.request("POST", "/v1/state-unlock/s", holder)[0] == 200
    assert kld.request("LOCK", f"{STATES}/s", lock_info("other"))[0] == 200
    assert kld.request("UNLOCK", f"{STATES}/s?ID=other")[0] == 200


def test_unlock_without_a_body_is_by_force_however_it_is_framed(kld: Any) -> None:
    for framing in (b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"Content-Length: 0\r\n\r\n"):
        assert kld.request("LOCK", f"{STATES}/s", lock_info("a"))[0] == 200
        head = b"UNLOCK /v1/states/s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        assert raw_request(kld, head + framing).startswith(b"HTTP/1.1 200")
        assert kld.request("LOCK", f"{STATES}/s", lock_info("b"))[0] == 200
        assert kld.request("UNLOCK", f"{STATES}/s", b"b")[0] == 200


def test_a_chunked_body_that_nobody_decoded_is_no_force_unlock(kld: Any) -> None:
    assert kld.request("LOCK", f"{STATES}/s", lock_info("a"))[0] == 200
    answer = raw_request(
        kld,
        b"UNLOCK /v1/states/s HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"5\r\nother\r\n0\r\n\r\n",
    )
    assert re.match(rb"HTTP/1.. 4\d\d", answer)
    assert kld.request("LOCK", f"{STATES}/s", lock_info("b"))[0] == 423


def test_chunked_posts_are_taken(kld: Any) -> None:
    body = document(1, "a")
    connection = http.client.HTTPConnection(kld.host, kld.port, timeout=20)
    pieces = iter([body[:10], body[10:]])
    connection.request("POST", f"{STATES}/s", pieces, encode_chunked=True)
    assert connection.getresponse().status == 200
    connection.close()
    assert kld.request("GET", f"{STATES}/s")[2] == body


NAMES = [
    "plain",
    "plain.tfstate",
    "a%2Fb",
    "a%252Fb",
    "a%20b",
    "a+b",
    "a;p=1",
    "a,1",
    "%23h",
    "%3Fq",
    "%25",
    "a%5Cb",
    "%C3%A9",
    "..%2F..",
    "x@v1:2~!",
]


def test_every_name_is_its_own_state_on_every_method(kld: Any) -> None:
    for number, name in enumerate(NAMES):
        path, body = f"{STATES}/{name}", document(1, f"n{number}")
        assert kld.request("LOCK", path, lock_info(f"id{number}"))[0] == 200, name
        assert kld.request("POST", f"{path}?ID=id{number}", body)[0] == 200, name
    for number, name in enumerate(NAMES):
        assert kld.request("GET", f"{STATES}/{name}")[2] == document(1, f"n{number}"), name
        assert kld.request("UNLOCK", f"{STATES}/{name}", lock_info(f"id{number}"))[0] == 200
    assert kld.request("GET", f"{STATES}/a/b")[0] == 404


def test_slash_absolute_form_and_escapes_mean_the_same_state(kld: Any) -> None:
    body = document(1, "a")
    assert kld.request("POST", f"{STATES}/s%C3%A9/", body)[0] == 200
    assert kld.request("GET", f"{STATES}/%73%c3%a9")[2] == body
    absolute = (
        f"GET {kld.url}/v1/states/s%C3%A9?x=y HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    assert raw_request(kld, absolute.encode()).endswith(body)


def test_the_short_form_is_the_default_environment(kld: Any, psql: Any) -> None:
    body = document(1, "a")
    assert kld.request("POST", f"{STATES}/s", body)[0] == 200
    [(workspace, environment)] = psql(
        "select w.public_id, e.public_id from kilolock.environments e"
        " join kilolock.workspaces w on w.id = e.workspace_id"
    )
    assert kld.request("GET", f"{STATES}/{workspace}/{environment}/s")[2] == body
    assert kld.request("GET", f"{STATES}/{workspace}/env_nowhere/s")[0] == 404


@pytest.mark.parametrize(
    "path",
    [f"{STATES}/%ff", f"{STATES}/a%00b", f"{STATES}/a%0Ab", f"{STATES}/a%zz", f"{STATES}/a%",
     f"{STATES}/s?ID=%ff", f"{STATES}/s?ID=%00", f"{STATES}/s?ID=%", f"{STATES}/" + "n" * 300],
)  # fmt: skip
def test_hostile_names_and_ids_are_refused_and_store_nothing(
    kld: Any, psql: Any, path: str
) -> None:
    status, _, body = kld.request("POST", path, document(1, "a"))
    assert 400 <= status < 500
    error_of(body)
    assert psql("select count(*) from kilolock.states")[0][0] == 0


@pytest.mark.parametrize("body", [b"", b"{", b"null", b"[]", b"\xff\xfe", b'{"version": 3}'])
def test_what_is_no_state_is_refused(kld: Any, body: bytes) -> None:
    status, _, answer = kld.request("POST", f"{STATES}/s", body)
    assert status == 400
    error_of(answer)
    assert kld.request("GET", f"{STATES}/s")[0] == 404


def test_a_digest_that_does_not_fit_and_an_encoding_are_refused(kld: Any) -> None:
    body = document(1, "a")
    wrong = {"Content-MD5": base64.b64encode(hashlib.md5(b"x").digest()).decode()}
    right = {"Content-MD5": base64.b64encode(hashlib.md5(body).digest()).decode()}
    assert kld.request("POST", f"{STATES}/s", body, wrong)[0] == 400
    assert kld.request("POST", f"{STATES}/s", body, {"Content-MD5": "ÿ\x7f"})[0] == 400
    assert kld.request("POST", f"{STATES}/s", body, {"Content-Encoding": "gzip"})[0] == 415
    assert kld.request("GET", f"{STATES}/s")[0] == 404
    assert kld.request("POST", f"{STATES}/s", body, right)[0] == 200


def test_too_large_is_413_and_leaves_lock_and_state(start_kld: Any) -> None:
    kld = start_kld(KL_MAX_STATE_MB="1")
    assert kld.request("LOCK", f"{STATES}/s", lock_info("a"))[0] == 200
    assert kld.request("POST", f"{STATES}/s?ID=a", document(1, "a"))[0] == 200
    large = document(2, "a") + b" " * (1 << 20)
    status, _, body = kld.request("POST", f"{STATES}/s?ID=a", large)
    assert status == 413
    assert "KL_MAX_STATE_MB" in error_of(body)["hint"]
    assert kld.request("GET", f"{STATES}/s")[2] == document(1, "a")
    assert kld.request("POST", f"{STATES}/s?ID=a", document(2, "b"))[0] == 200
    assert kld.request("LOCK", f"{STATES}/t", lock_info("x" * 70_000))[0] == 413


def test_unknown_methods_and_paths(kld: Any) -> None:
    for method in ("PATCH", "BREW", "PROPFIND"):
        status, headers, body = kld.request(method, f"{STATES}/s")
        assert status == 405, method
        assert "LOCK" in headers["allow"]
        error_of(body)
    for path in ("/", "/v1", STATES, f"{STATES}/", f"{STATES}/a/b", f"{STATES}/a/b/c/d", "/x"):
        status, _, body = kld.request("GET", path)
        assert status == 404, path
        error_of(body)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /v1/states/s HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/states/s HTTP/1.1\r\nHost: x\r\nContent-Length: 1e3\r\n\r\n",
        b"POST /v1/states/s HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}",
        b"GET /v1/states/s HTTP/9.9\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET /v1/states/\xff\xfe\x01 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET //[::1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET http://[::1/v1/states/s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET /v1/states/s HTTP/1.1\r\nHost: \xff:99999999\r\nConnection: close\r\n\r\n",
        b"GET /v1/states/s HTTP/1.1\r\nHost: x\r\nCookie: \xff=;;\r\nRange: bytes=9-1\r\n"
        b"If-None-Match: \xff\r\nAccept: \xff\r\nConnection: close\r\n\r\n",
        b"nonsense\r\n\r\n",
    ],
)
def test_hostile_requests_never_get_5xx(kld: Any, request_bytes: bytes) -> None:
    answer = raw_request(kld, request_bytes)
    # A request line that makes no sense may also end in a closed connection.
    assert not answer or re.match(rb"HTTP/1\.[01] [2-4]\d\d ", answer), answer[:100]
    assert kld.request("GET", "/healthz")[0] == 200


def test_open_mode_ignores_credentials_but_refuses_web_pages(kld: Any) -> None:
    assert kld.request("POST", f"{STATES}/s", document(1, "a"), basic("ann", "x"))[0] == 200
    for header in ("Basic @@@", "Basic", "Bearer \xff", "Nonsense"):
        assert kld.request("GET", f"{STATES}/s", headers={"Authorization": header})[0] == 200
    evil = {"Origin": "https://evil.example", "Content-Type": "text/plain"}
    assert kld.request("POST", f"{STATES}/s", document(2, "b"), evil)[0] == 403


def test_static_mode_wants_the_token_as_bearer_or_password(start_kld: Any) -> None:
    token = "pä:ss wörd"
    kld = start_kld(KL_AUTH_MODE="static", KL_AUTH_TOKEN=token)
    good = [
        basic("ann", token),
        {"Authorization": "Bearer " + token.encode().decode("latin-1")},
        {"authorization": basic("ann", token)["Authorization"].replace("Basic", "bAsIc")},
    ]
    bad = [
        {},
        basic("", token),
        basic("ann", ""),
        basic("ann", token + "x"),
        {"Authorization": "Basic @@@"},
        {"Authorization": "Basic " + base64.b64encode(b"\xff\xfe:\0").decode()},
        {"Authorization": "Basic " + base64.b64encode(b"ann").decode()},
        {"Authorization": "Bearer " + "x" * 9000},
        {"Authorization": "Bearer"},
    ]
    for headers in bad:
        for method, path in (
            ("POST", f"{STATES}/s"),
            ("LOCK", f"{STATES}/s"),
            ("GET", "/nowhere"),
            ("POST", "/v1/query"),
        ):
            status, answer, body = kld.request(method, path, document(1, "a"), headers)
            assert status == 401, headers
            assert answer["www-authenticate"]
            error_of(body)
    for headers in good:
        assert kld.request("GET", f"{STATES}/s", headers=headers)[0] == 404
    for path in ("/healthz", "/readyz", "/versionz", "/metrics"):
        assert kld.request("GET", path)[0] == 200
    assert token not in kld.output()


@pytest.mark.parametrize("token", ["", " "])
def test_static_mode_needs_a_token(token: str) -> None:
    with pytest.raises(ConfigError, match="KL_AUTH_TOKEN is empty"):
        check_auth(load({"KL_AUTH_MODE": "static", "KL_AUTH_TOKEN": token}))


def test_the_signed_in_user_is_the_actor(start_kld: Any, psql: Any) -> None:
    kld = start_kld(KL_AUTH_MODE="static", KL_AUTH_TOKEN="t")
    assert kld.request("POST", f"{STATES}/s", document(1, "a"), basic("änn", "t"))[0] == 200
    assert psql("select actor from kilolock.state_versions") == [("änn",)]


def ask(kld: Any, **fields: Any) -> tuple[int, Any]:
    """POST /v1/query as JSON; the status and the parsed answer."""
    status, _, body = kld.request(
        "POST", "/v1/query", json.dumps(fields), {"Content-Type": "application/json"}
    )
    return status, json.loads(body)


def test_query_answers_with_columns_rows_and_every_digit(kld: Any) -> None:
    sql = "select 1 as n, 12345678901234567890.10 as n, null as x, 'a\"b' as s, true as t"
    status, _, body = kld.request("POST", "/v1/query", sql, {"Content-Type": "text/plain"})
    assert status == 200
    assert b"12345678901234567890.10" in body
    answer = json.loads(body)
    assert [c["name"] for c in answer["columns"]] == ["n", "n", "x", "s", "t"]
    assert [c["type"] for c in answer["columns"]] == [
        "integer",
        "numeric",
        "text",
        "text",
        "boolean",
    ]
    assert answer["rows"][0][2:] == [None, 'a"b', True]
    assert ask(kld, sql="select name from states")[1] == {
        "columns": [{"name": "name", "type": "text"}],
        "rows": [],
        "truncated": False,
    }


def test_query_answers_with_numbers_and_depths_that_python_does_not_read(kld: Any) -> None:
    digits, deep = "7" * 20_000, "[" * 5000 + '"]\\""' + "]" * 5000
    body = document(1, "a").decode().replace('"id": "id-a"', f'"id": {digits}, "deep": {deep}')
    assert kld.request("POST", f"{STATES}/s", body)[0] == 200
    for fields in ({}, {"format": "csv"}):
        status, _, answer = kld.request(
            "POST",
            "/v1/query",
            json.dumps({"sql": "select attributes from resources", **fields}),
            {"Content-Type": "application/json"},
        )
        assert status == 200
        assert digits.encode() in answer
        assert b"[" * 5000 in answer


def test_query_takes_arguments_limit_and_format(kld: Any) -> None:
    status, _, body = kld.request(
        "POST",
        "/v1/query",
        b'{"sql": "select ($1)[1]::numeric a, ($1)[2] b", "args": [0.12345678901234567890, true]}',
        {"Content-Type": "application/json"},
    )
    assert (status, b'[[0.12345678901234567890,"true"]]' in body) == (200, True)
    status, answer = ask(
        kld, sql="select ($1)[1] a, ($1)[2]::int b, ($1)[3] c", args=["x'y", 2, None]
    )
    assert (status, answer["rows"]) == (200, [["x'y", 2, None]])
    status, answer = ask(kld, sql="select generate_series(1, 10)", limit=3)
    assert (answer["rows"], answer["truncated"]) == ([[1], [2], [3]], True)
    status, answer = ask(kld, sql="select generate_series(1, 3)", limit=3)
    assert (len(answer["rows"]), answer["truncated"]) == (3, False)
    status, headers, body = kld.request(
        "POST", "/v1/query", "select 1 a, 'x,\ny' b, null c", {"Accept": "text/csv"}
    )
    assert headers["content-type"].startswith("text/csv")
    assert body == b'a,b,c\n1,"x,\ny",\n'


@pytest.mark.parametrize(
    ("sql", "status", "code"),
    [
        ("select nope", 400, "42703"),
        ("selec 1", 400, "42601"),
        ("select 1; select 2", 400, "42601"),
        ("delete from kilolock.states", 400, None),
        ("insert into kilolock.states (name) values ('x') returning id", 400, None),
        ("select 1/0", 400, "22012"),
        ("select pg_read_file('/etc/passwd')", 403, "42501"),
        ("select set_config('role', 'kilolock_owner', false)", None, None),
        ("copy (select 1) to '/tmp/x'", 400, None),
        ("set statement_timeout = 0", 400, None),
        ("commit", 400, None),
        ("", 400, None),
        ("select 'a\0b'", 400, None),
        ("select kilolock.delete_state(null, null, 'x', null, null)", 403, "42501"),
    ],
)
def test_query_errors_are_4xx_with_postgresqls_words(
    kld: Any, sql: str, status: int | None, code: str | None
) -> None:
    got, answer = ask(kld, sql=sql)
    assert 400 <= got < 500
    assert status is None or got == status
    assert code is None or answer["error"]["code"] == code
    assert kld.request("GET", "/readyz")[0] == 200


def test_query_is_stopped_in_time_and_leaves_nothing_behind(kld: Any) -> None:
    started = time.monotonic()
    status, answer = ask(kld, sql="select pg_sleep(30)", timeout=0.3)
    assert time.monotonic() - started < 5
    assert (status, answer["error"]["code"]) == (400, "57014")
    assert (
        ask(kld, sql="select pg_advisory_lock(7), set_config('work_mem', '64kB', false)")[0] == 200
    )
    sql = "select count(*), current_setting('work_mem') from pg_locks where locktype = 'advisory'"
    status, answer = ask(kld, sql=sql)
    assert answer["rows"][0][0] == 0
    assert answer["rows"][0][1] != "64kB"


def test_a_query_ends_with_the_client_that_asked(kld: Any, psql: Any) -> None:
    def sleepers() -> list[tuple[Any, ...]]:
        return psql(
            "select pid from pg_stat_activity where datname = current_database()"
            " and query like '%run_state_query%' and state = 'active' and pid <> pg_backend_pid()"
        )

    body = json.dumps({"sql": "select pg_sleep(300)", "timeout": 300}).encode()
    with socket.create_connection((kld.host, kld.port), timeout=20) as sock:
        sock.sendall(
            b"POST /v1/query HTTP/1.1\r\nHost: kld\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        wait_for(sleepers)
    wait_for(lambda: not sleepers())
    assert ask(kld, sql="select 1")[0] == 200


def wait_for(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"[]", b"null", b"\xff", b'{"sql": 1}', b'{"sql": "select 1", "args": {}}',
        b'{"sql": "select 1", "limit": -1}', b'{"sql": "select 1", "limit": 1e999}',
        b'{"sql": "select 1", "timeout": "x"}', b'{"sql": "select 1", "format": "xml"}',
        b'{"sql": "select \\ud800"}', b'{"sql": "select 1", "args": ["\\u0000"]}',
        b"[" * 100_000,
    ],
)  # fmt: skip
def test_query_refuses_what_it_does_not_understand(kld: Any, body: bytes) -> None:
    status, _, answer = kld.request("POST", "/v1/query", body, {"Content-Type": "application/json"})
    assert status == 400
    error_of(answer)


def test_health_version_and_metrics(kld: Any) -> None:
    kld.request("POST", f"{STATES}/s", document(1, "a"))
    assert json.loads(kld.request("GET", "/healthz")[2]) == {"status": "ok"}
    assert kld.request("GET", "/readyz")[0] == 200
    assert json.loads(kld.request("GET", "/versionz")[2])["version"]
    text = kld.request("GET", "/metrics")[2].decode()
    assert "kilolock_database_up 1" in text
    route = 'method="POST",route="/v1/states/{state}"'
    assert f'kilolock_http_requests_total{{{route},status="200"}} 1' in text
    assert f'kilolock_http_request_duration_seconds_bucket{{{route},le="+Inf"}} 1' in text
    sample = re.compile(r'[a-z_]+(\{([a-z_]+="[^"]*",?)*\})? [-+0-9.eE]+|#.*')
    assert all(sample.fullmatch(line) for line in text.splitlines()), text


def test_a_database_that_is_away_is_503_and_comes_back(start_kld: Any, psql: Any) -> None:
    kld = start_kld()
    assert kld.request("POST", f"{STATES}/s", document(1, "a"))[0] == 200
    [(name,)] = psql("select current_database()")
    # A database that takes no connections looks the same as a server that is down.
    with_connections_refused = (
        "update pg_catalog.pg_database set datallowconn = false where datname = current_database()"
    )
    psql(with_connections_refused)
    psql("select pg_terminate_backend(pid) from pg_stat_activity"
         " where datname = %s and pid <> pg_backend_pid()", name)  # fmt: skip
    try:
        status, headers, body = kld.request("GET", f"{STATES}/s")
        assert status == 503
        assert headers["retry-after"]
        error_of(body)
        assert kld.request("GET", "/readyz")[0] == 503
        assert kld.request("GET", "/healthz")[0] == 200
        assert b"kilolock_database_up 0" in kld.request("GET", "/metrics")[2]
    finally:
        psql(with_connections_refused.replace("false", "true"))
    assert kld.request("GET", f"{STATES}/s")[2] == document(1, "a")


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_one_line_is_logged_for_a_request_without_secrets(start_kld: Any, log_format: str) -> None:
    kld = start_kld(KL_LOG_FORMAT=log_format)
    kld.request("LOCK", f"{STATES}/a%20b", lock_info("lock-secret"))
    kld.request("POST", f"{STATES}/a%20b?ID=lock-secret", document(1, "n", lineage="body-secret"))
    kld.request("GET", "/v1/states/x", headers=basic("ann", "pass-secret"))
    output = kld.output()
    lines = [line for line in output.splitlines() if "POST" in line]
    assert len(lines) == 1
    assert "secret" not in output
    if log_format == "json":
        record = json.loads(lines[0])
        assert record["method"] == "POST"
        assert (record["state"], record["version"], record["status"]) == ("a b", 1, 200)
        assert record["duration_ms"] > 0
    else:
        assert 'state="a b" version=1 status=200' in lines[0]


def test_an_unknown_transfer_encoding_is_the_clients_mistake(kld: Any) -> None:
    host, port = kld.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as client:
        client.sendall(
            b"POST /v1/states/odd HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n"
        )
        assert client.recv(64).startswith(b"HTTP/1.1 400 ")
