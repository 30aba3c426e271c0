"""Who may talk to the workbench, asked over real connections."""

from __future__ import annotations

import asyncio
import http.client
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import EngineError
from sfumato.web import server
from sfumato.web.server import Guard, Server, entrance
from workbench import Running, answered, running

TABLE = "age,sex,town\n" + "".join(
    f"{20 + row % 30},{'FM'[row % 2]},{'Aton' if row % 3 else 'Berg'}\n" for row in range(240)
)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Running]:
    (tmp_path / "people.csv").write_text(TABLE)
    with running([tmp_path]) as found:
        yield found


def ask(
    bench: Running, place: str, method: str = "GET", body: str | bytes | None = None, **headers: str
) -> http.client.HTTPResponse:
    """One request with exactly these headers; underscores stand for dashes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None:
        named.setdefault("content-type", "application/x-www-form-urlencoded")
    return answered(bench.port, method, place, body, named)[0]


def test_the_link_works_once(bench: Running) -> None:
    assert ask(bench, "/").status == 403
    assert ask(bench, "/?token=guess").status == 403
    first = ask(bench, bench.path)
    assert first.status == 200
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert ask(bench, bench.path).status == 403
    assert ask(bench, "/", cookie=cookie.partition(";")[0]).status == 200


def test_the_cookie_is_of_this_port_alone(bench: Running, tmp_path: Path) -> None:
    """Browsers send cookies to every port: two workbenches neither mix up nor trust theirs."""
    said = ask(bench, bench.path).headers["set-cookie"]
    assert said.startswith(f"sfumato_{bench.port}=")
    assert {part.strip().lower() for part in said.split(";")[1:]} == {
        "httponly", "path=/", "samesite=strict",
    }  # fmt: skip
    ours = said.partition(";")[0]
    with running([tmp_path]) as another:
        theirs = another.enter()
        assert theirs.partition("=")[0] == f"sfumato_{another.port}"
        assert ask(another, "/", cookie=ours).status == 403
        renamed = ours.replace(str(bench.port), str(another.port), 1)
        assert ask(another, "/", cookie=renamed).status == 403
        for one in (bench, another):
            assert ask(one, "/", cookie=f"{ours}; {theirs}").status == 200


def test_the_workbench_listens_on_this_machine_alone(bench: Running) -> None:
    listening = [
        line.split()[1]
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if line.split()[1].endswith(f":{bench.port:04X}") and line.split()[3] == "0A"
    ]
    assert listening == [f"0100007F:{bench.port:04X}"]


def test_the_token_is_on_no_command_line(tmp_path: Path) -> None:
    """Everybody on a machine can read how the browser was called."""
    seen, browser = tmp_path / "seen", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > {seen}.part\nmv {seen}.part {seen}\n')
    browser.chmod(0o700)
    program = [sys.executable, "-m", "sfumato", "serve", str(tmp_path), "--port", "0"]
    surroundings = {**os.environ, "BROWSER": str(browser)}
    with subprocess.Popen(program, env=surroundings, stderr=subprocess.PIPE, text=True) as served:
        try:
            assert served.stderr is not None
            link = next(line for line in served.stderr if "token=" in line)
            token = link.split("token=")[1].strip()
            while not seen.exists() and served.poll() is None:
                time.sleep(0.05)
            called = seen.read_text()
            for place in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    assert token.encode() not in place.read_bytes()
        finally:
            served.terminate()
    assert called.startswith("file://")
    assert token not in called


def test_the_link_is_followed_from_a_private_file(bench: Running) -> None:
    link = bench.server.guard.link
    with entrance(link) as address:
        assert "token" not in address, "everybody sees the browser's command line"
        page = Path(unquote(urlsplit(address).path))
        assert page.stat().st_mode & 0o077 == 0
        assert page.parent.stat().st_mode & 0o077 == 0
        assert f'url={link}"' in page.read_text()
    assert not page.exists()
    # a browser says that it comes from elsewhere, and the answer leads on from our own page
    entered = ask(bench, bench.path, sec_fetch_site="cross-site")
    assert entered.status == 200
    cookie = entered.headers["set-cookie"].partition(";")[0]
    assert ask(bench, "/", cookie=cookie, sec_fetch_site="cross-site").status == 403
    assert ask(bench, "/", cookie=cookie, sec_fetch_site="same-origin").status == 200


@pytest.mark.skipif(
    not Path("/proc/net/tcp").exists() or os.geteuid() != 0,
    reason="only root can become another user",
)
def test_another_user_gets_in_with_no_cookie(bench: Running) -> None:
    """Whoever runs a server on another port of this machine is sent our cookie by the browser."""
    stolen = bench.enter()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            os.setuid(65534)
            os.write(writing, str(ask(bench, "/", cookie=stolen).status).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as told:
        assert told.read() == "403"
    assert ask(bench, "/", cookie=stolen).status == 200


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="only Linux tells whose it is")
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_whose_a_connection_is_takes_no_list_of_all(
    bench: Running, monkeypatch: pytest.MonkeyPatch, family: int
) -> None:
    """The kernel takes milliseconds for that list, on every request."""
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.connect(
            ("::ffff:127.0.0.1" if family == socket.AF_INET6 else "127.0.0.1", bench.port)
        )
        port = client.getsockname()[1]
        listed = server._listed_owner(port, bench.port)
        monkeypatch.setattr(server, "_listed_owner", lambda *_: pytest.fail("all were listed"))
        assert server._owner(port, bench.port) == listed == os.geteuid()
    assert bench.get("/").status == 200


def test_other_names_of_this_machine_are_refused(bench: Running) -> None:
    cookie = bench.enter()
    for host in ("evil.example", f"evil.example:{bench.port}", "127.0.0.1", ""):
        assert ask(bench, "/", cookie=cookie, host=host).status == 421
    assert ask(bench, "/", cookie=cookie, host=f"localhost:{bench.port}").status == 200


def test_other_pages_are_refused(bench: Running) -> None:
    cookie, own = bench.enter(), f"http://127.0.0.1:{bench.port}"
    body = "table=x"
    for origin in ("http://evil.example", "null", f"http://localhost:{bench.port}"):
        assert ask(bench, "/open", "POST", body, cookie=cookie, origin=origin).status == 403
        assert ask(bench, "/", cookie=cookie, origin=origin).status == 403
    assert ask(bench, "/open", "POST", body, cookie=cookie).status == 403
    assert ask(bench, "/", cookie=cookie, sec_fetch_site="cross-site").status == 403
    assert ask(bench, "/", "DELETE", cookie=cookie).status == 405
    assert ask(bench, "/open", "POST", body, cookie=cookie, origin=own).status == 400


def test_every_answer_forbids_what_is_not_needed(bench: Running) -> None:
    cookie = bench.enter()
    for place in ("/", "/static/workbench.js", "/nowhere", "/p/none/risk"):
        headers = ask(bench, place, cookie=cookie).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "style-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
    refused = ask(bench, "/")
    assert "default-src 'none'" in refused.headers["content-security-policy"]


def test_only_named_folders_are_open(bench: Running, tmp_path: Path) -> None:
    outside = tmp_path.parent / "outside.csv"
    outside.write_text(TABLE)
    (tmp_path / "link.csv").symlink_to(outside)
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "deep.csv").write_text(TABLE)
    listed = bench.get("/").text
    assert "people.csv" in listed
    assert "link.csv" not in listed
    assert "deep.csv" not in listed
    for wanted in (outside, "/etc/passwd", tmp_path / "inside" / "deep.csv",
                   f"{tmp_path}/../outside.csv", "", tmp_path / "link.csv"):  # fmt: skip
        assert bench.post("/open", table=str(wanted)).status == 400
    for place in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/app.py"):
        assert bench.get(place).status == 404
    assert bench.workbench.projects == {}


ODD = st.binary(max_size=60) | st.sampled_from(
    [b"", b"path=1", b'sfumato_1="\\777', b"\xff=\xff", b"a;b;c", b"=", b"sfumato_1=\xe9"]
)


@given(
    host=ODD, origin=ODD, cookie=ODD, site=ODD, query=ODD, method=st.sampled_from(["GET", "POST"])
)
@settings(max_examples=200)
def test_nothing_gets_through_by_being_odd(
    host: bytes, origin: bytes, cookie: bytes, site: bytes, query: bytes, method: str
) -> None:
    """Requests without the secret are answered by the guard itself, whatever they say."""
    passed, answers = [], []

    async def app(scope: object, receive: object, send: object) -> None:
        passed.append(scope)

    async def send(message: dict[str, Any]) -> None:
        answers.append(message)

    guard = Guard(app, 1)  # type: ignore[arg-type]
    for named in (host, b"127.0.0.1:1"):
        headers = [(b"host", named), (b"cookie", cookie), (b"sec-fetch-site", site)]
        headers += [(b"origin", origin)] if origin else []
        query_string = b"token=" + query
        scope = {"type": "http", "method": method, "path": "/", "headers": headers,
                 "query_string": query_string}  # fmt: skip
        asyncio.run(guard(scope, None, send))  # type: ignore[arg-type]
    assert passed == []
    told = [m["status"] for m in answers if m["type"] == "http.response.start"]
    assert told == [421, 403]
    assert guard.token is not None


def test_pages_hold_no_code_and_no_style(bench: Running, tmp_path: Path) -> None:
    bench.follow(bench.post("/open", table=str(tmp_path / "people.csv")))
    (project,) = bench.workbench.projects.values()
    base = f"/p/{project.number}"
    roles = {f"role-{at}": "quasi-identifier" for at in range(3)}
    bench.follow(bench.post(f"{base}/configure", k=3, method="mondrian", **roles))
    bench.follow(bench.post(f"{base}/utility", k=3, method="mondrian", range=1))
    bench.follow(bench.post(f"{base}/release"))
    places = ["/", "/nowhere", f"{base}/risk/figure?k=4", f"{base}/columns/2"]
    places += [f"{base}/{step}" for step in ("configure", "explore", "risk", "utility", "release")]
    for place in places:
        text = bench.follow(bench.get(place)).text
        assert "<style" not in text, place
        assert not re.search(r"<[^>]* style=", text), place
        assert not re.search(r"<[^>]* on[a-z]+=", text), place
        assert "javascript:" not in text, place
        scripts = re.findall(r"<script[^>]*>", text)
        assert set(scripts) <= {'<script type="module" src="/static/workbench.js">'}, place
        assert not re.search(r"(src|href|action)=\"(?!/|#)", text), place


def test_names_and_labels_stay_text(bench: Running, tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>"
    lines = [f'"{evil}",age']
    lines += [f"{('<b>bold</b>', '{{ 7 * 7 }}')[row % 2]},{20 + row % 5}" for row in range(200)]
    (tmp_path / "<i>odd.csv").write_text("\n".join(lines) + "\n")
    bench.follow(bench.post("/open", table=str(tmp_path / "<i>odd.csv")))
    (project,) = bench.workbench.projects.values()
    base = f"/p/{project.number}"
    roles = {"role-0": "quasi-identifier", "role-1": "quasi-identifier"}
    bench.follow(bench.post(f"{base}/configure", k=3, method="mondrian", **roles))
    form = {"do": "group", "pick": [0], "label": "<script>x</script>"}
    bench.post(f"{base}/columns/0", edition=project.decided.edition, **form)
    assert "<script>x</script>" in project.choices.trees[evil].names.values()
    bench.follow(bench.post(f"{base}/utility", k=3, method="mondrian"))
    for place in ("/", f"{base}/configure", f"{base}/columns/0", f"{base}/utility",
                  f"{base}/risk", f"{base}/release"):  # fmt: skip
        text = bench.follow(bench.get(place)).text
        for raw in ("<img", "<i>", "<b>", "<script>x"):
            assert raw not in text, (place, raw)


BODIES = [
    b"", b"%", b"%zz=%", b"k", b"=5", b"k=x&k=6&k=7", b"k=\x00", b"k=%00", b"\xff\xfe",
    b"k=5=" * 1000, b"&" * 60_000, b"k=" + b"9" * 6000, b'{"k": 5}', b"role-0=" + b"x" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_no_body_breaks_a_page(bench: Running, tmp_path: Path, body: bytes) -> None:
    bench.follow(bench.post("/open", table=str(tmp_path / "people.csv")))
    (project,) = bench.workbench.projects.values()
    base, before = f"/p/{project.number}", project.choices
    cookie, own = bench.enter(), f"http://127.0.0.1:{bench.port}"
    for place in ("/open", f"{base}/configure", f"{base}/utility", f"{base}/utility/use",
                  f"{base}/risk", f"{base}/columns/1", "/upload?name=x.csv"):  # fmt: skip
        answer = ask(bench, place, "POST", body, cookie=cookie, origin=own)
        assert answer.status in (200, 400, 404, 413, 415), (place, answer.status)
    assert project.choices == before


@pytest.mark.parametrize("place", ["/open", "/p/{}/configure", "/p/{}/columns/1", "/p/{}/undo"])
def test_bodies_that_are_too_large_are_not_read(bench: Running, tmp_path: Path, place: str) -> None:
    bench.follow(bench.post("/open", table=str(tmp_path / "people.csv")))
    (project,) = bench.workbench.projects.values()
    cookie, own = bench.enter(), f"http://127.0.0.1:{bench.port}"
    large = "label=" + "x" * 5_000_000
    where = place.format(project.number)
    # The server may also hang up before all of it is sent, and then the answer is lost.
    with suppress(ConnectionResetError):
        assert ask(bench, where, "POST", large, cookie=cookie, origin=own).status == 413


def test_a_form_that_is_none(bench: Running) -> None:
    cookie, own = bench.enter(), f"http://127.0.0.1:{bench.port}"
    large = "table=" + "x" * 5_000_000
    # The server may also hang up before all of it is sent, and then the answer is lost.
    with suppress(ConnectionResetError):
        assert ask(bench, "/open", "POST", large, cookie=cookie, origin=own).status == 413
    assert ask(bench, "/open", "POST", "%ff%fe=\xff", cookie=cookie, origin=own).status == 400


def test_an_unexpected_problem_quotes_no_cell(
    bench: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise ValueError("invalid literal: 'Anna Berg, HIV positive'")

    monkeypatch.setattr(bench.workbench.shelf, "tables", fails)
    answer = bench.get("/")
    assert answer.status == 500
    assert "An unexpected problem (ValueError)." in answer.text
    assert "Anna" not in answer.text


def test_a_port_is_free_again_once_its_server_has_ended(bench: Running) -> None:
    """Though connections that it closed itself linger; one that is listened on is never shared."""
    with socket.create_server(("127.0.0.1", 0)) as before:
        port = before.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            before.accept()[0].close()
            assert client.recv(1) == b""
    later = Server(bench.workbench, port)
    try:
        for taken in (port, bench.port):
            with pytest.raises(EngineError, match="cannot be used"):
                Server(bench.workbench, taken)
    finally:
        later._socket.close()
