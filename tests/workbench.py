"""A running workbench for tests, and a small client that stays signed in."""

from __future__ import annotations

import http.client
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from sfumato.web.app import Workbench
from sfumato.web.server import Server
from sfumato.web.sources import TableFolders, Uploads

__all__ = ["PATIENCE", "PEOPLE", "PEOPLE_ROWS", "ROLES", "Answer", "Running", "answered", "running"]

PATIENCE = 300
"""Seconds after which something is taken to hang: loops may have to be compiled first, and the
machine may have other things to do."""

PEOPLE_ROWS = 400
PEOPLE = "name,age,sex,town,illness\n" + "".join(
    f"person{row},{20 + row * 7 % 40},{'FM'[row % 2]},{('Aton', 'Berg', 'Cove')[row % 3]},"
    f"{('flu', 'none')[row % 5 == 0]}\n"
    for row in range(PEOPLE_ROWS)
)
ROLES = {"role-0": "identifier", "role-1": "quasi-identifier", "role-2": "quasi-identifier",
         "role-3": "quasi-identifier", "role-4": "sensitive"}  # fmt: skip


def answered(
    port: int,
    method: str,
    place: str,
    body: str | bytes | None,
    headers: Mapping[str, str],
    encoding: str = "utf-8",
) -> tuple[http.client.HTTPResponse, str]:
    """One request, and the answer with its text.

    A server that refuses a body may answer, and hang up, before all of it is sent.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.request(method, place, body, dict(headers))
        answer = connection.getresponse()
        return answer, answer.read().decode(encoding)
    finally:
        connection.close()


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    text: str
    place: str | None
    """Where it sends the reader."""
    later: bool = False
    """Whether a part of it is to be asked for again."""

    @property
    def drawn(self) -> str:
        """Its text but for the moment it was asked for."""
        return re.sub(r' data-since="[\d.]+"', "", self.text)


@dataclass
class Running:
    """A workbench that listens."""

    workbench: Workbench
    server: Server
    _cookie: str | None = field(default=None)

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def path(self) -> str:
        """Path and query of the link that works once."""
        parts = urlsplit(self.server.guard.link)
        return f"{parts.path}?{parts.query}"

    def enter(self) -> str:
        """The cookie of a browser that opened the link."""
        if self._cookie is None:
            answer, _ = answered(self.port, "GET", self.path, None, {})
            self._cookie = str(answer.headers["set-cookie"]).partition(";")[0]
        return self._cookie

    def get(self, place: str) -> Answer:
        return self._ask("GET", place, None)

    def post(self, place: str, **form: object) -> Answer:
        """Send a form; several values of a field are a list."""
        return self._ask("POST", place, urlencode(form, doseq=True))

    def upload(self, name: str, content: bytes, **headers: str) -> Answer:
        """Send a file as the browser does."""
        given = {"content-type": "application/octet-stream", **headers}
        return self._ask("POST", f"/upload?{urlencode({'name': name})}", content, given)

    def _ask(
        self,
        method: str,
        place: str,
        body: str | bytes | None,
        more: Mapping[str, str] | None = None,
    ) -> Answer:
        headers = {"cookie": self.enter(), "origin": f"http://127.0.0.1:{self.port}"}
        headers |= more or {}
        answer, text = answered(self.port, method, place, body, headers)
        headers = answer.headers
        return Answer(answer.status, text, headers.get("location"), "x-later" in headers)

    def follow(self, answer: Answer) -> Answer:
        """Go where an answer leads, through jobs, until there is a page."""
        until = time.monotonic() + PATIENCE
        while answer.status == 303 and answer.place is not None:
            place = answer.place
            answer = self.get(place)
            while place.startswith("/jobs/") and answer.status == 200 and 'id="job"' in answer.text:
                assert time.monotonic() < until, "the job never ends"
                time.sleep(0.05)
                answer = self.get(place)
        return answer


@contextmanager
def running(places: Sequence[Path], uploads: Uploads | None = None) -> Iterator[Running]:
    """A workbench on a free port; nothing is left of it afterwards."""
    workbench = Workbench(TableFolders(places), uploads=uploads)
    server = Server(workbench)
    ready = threading.Event()
    thread = threading.Thread(target=server.run, args=(lambda link: ready.set(),))
    thread.start()
    try:
        assert ready.wait(PATIENCE)
        yield Running(workbench, server)
    finally:
        server.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()
