"""A running workbench for tests, and a small client that stays signed in."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from sfumato.web.app import Workbench
from sfumato.web.serving import Server
from sfumato.web.shelf import Shelf
from sfumato.web.uploads import Uploads

__all__ = ["Answer", "Running", "running"]


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    text: str
    place: str | None
    """Where it sends the reader."""


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
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
            connection.request("GET", self.path)
            answer = connection.getresponse()
            answer.read()
            self._cookie = str(answer.headers["set-cookie"]).partition(";")[0]
            connection.close()
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
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, place, body, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return Answer(answer.status, text, answer.headers.get("location"))

    def follow(self, answer: Answer, seconds: float = 60) -> Answer:
        """Go where an answer leads, through jobs, until there is a page."""
        until = time.monotonic() + seconds
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
    workbench = Workbench(Shelf(places), uploads=uploads)
    server = Server(workbench)
    ready = threading.Event()
    thread = threading.Thread(target=server.run, args=(lambda link: ready.set(),))
    thread.start()
    try:
        assert ready.wait(30)
        yield Running(workbench, server)
    finally:
        server.stop()
        thread.join(30)
        assert not thread.is_alive()
