"""Who may talk to the workbench, asked over real connections."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from workbench import Running, running

TABLE = "age,sex,town\n" + "".join(
    f"{20 + row % 30},{'FM'[row % 2]},{'Aton' if row % 3 else 'Berg'}\n" for row in range(240)
)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Running]:
    (tmp_path / "people.csv").write_text(TABLE)
    with running([tmp_path]) as found:
        yield found


def ask(
    bench: Running, place: str, method: str = "GET", body: str | None = None, **headers: str
) -> http.client.HTTPResponse:
    """One request with exactly these headers; underscores stand for dashes."""
    connection = http.client.HTTPConnection("127.0.0.1", bench.port, timeout=30)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None:
        named.setdefault("content-type", "application/x-www-form-urlencoded")
    connection.request(method, place, body, named)
    answer = connection.getresponse()
    answer.text = answer.read().decode()  # type: ignore[attr-defined]
    connection.close()
    return answer


def test_the_link_works_once(bench: Running) -> None:
    assert ask(bench, "/").status == 403
    assert ask(bench, "/?token=guess").status == 403
    first = ask(bench, bench.path)
    assert first.status == 303
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert ask(bench, bench.path).status == 403
    assert ask(bench, "/", cookie=cookie.partition(";")[0]).status == 200


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
        assert "unsafe-eval" not in policy
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


def test_a_form_that_is_none(bench: Running) -> None:
    cookie, own = bench.enter(), f"http://127.0.0.1:{bench.port}"
    large = "table=" + "x" * 5_000_000
    # The server may also stop listening before all of it is sent.
    with suppress(BrokenPipeError, ConnectionResetError):
        assert ask(bench, "/open", "POST", large, cookie=cookie, origin=own).status == 413
    assert ask(bench, "/open", "POST", "%ff%fe=\xff", cookie=cookie, origin=own).status == 400
