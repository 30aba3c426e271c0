"""Who may talk to the workbench: the browser that opened the link, and no other page in it.

The link carries a token that works once; it is exchanged for a cookie. The browser gets the link
from a file that only its user can read (`entrance`), since everybody sees the command lines of
others. Browsers send a cookie to every port of a host, so another user's server may come to know
it: where the system tells whose a connection is, those of other users are refused. Requests must
name this machine as their host (a page that resolves its own name to 127.0.0.1 is refused) and,
where they change something, come from the workbench's own pages. Answers forbid the browser to load
or to run anything from elsewhere.
"""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from html import escape
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from urllib.parse import parse_qs

import uvicorn
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sfumato.errors import EngineError
from sfumato.report import drawing
from sfumato.web.app import Workbench

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not "no-referrer": that would make the browser hide where its own forms come from.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Of every answer. Neither scripts nor styles may stand in pages."""
NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST = 4, 20, 1
UID_AT = 64
"""Where ``struct inet_diag_msg`` names the user of a connection."""
SWITCH = 0.001
"""Seconds after which work in Python lets pages be answered."""


class Guard:
    """Lets requests through to `app`, or answers them itself."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        self.app = app
        self.port = port
        self.token: str | None = secrets.token_urlsafe(32)
        self._session = secrets.token_urlsafe(32)
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self._cookie = f"sfumato_{port}"

    way_in = "Open the link that `sfumato serve` printed; it works once, in one browser."
    """What a browser is told that did not come through a link."""

    def renew(self) -> str:
        """A fresh link for another browser; an older one that was not used works no more."""
        self.token = secrets.token_urlsafe(32)
        return self.link

    @property
    def link(self) -> str:
        """The address to open, once."""
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # there is nothing but HTTP here
        answer = self._stranger(scope) or self._refusal(scope)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        await (answer or self.app)(scope, receive, guarded)

    def _stranger(self, scope: Scope) -> Response | None:
        """The answer to other users of this machine, where the system tells who asks."""
        client = scope.get("client")
        owner = None if client is None else _owner(int(client[1]), self.port)
        if owner is None or owner == os.geteuid():
            return None
        return PlainTextResponse("This workbench belongs to another user.", 403)

    def _refusal(self, scope: Scope) -> Response | None:
        """The answer to a request that goes no further; None lets it through."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if host not in self._hosts:
            return PlainTextResponse("This host is not served here.", 421)
        method = scope["method"]
        if method not in ("GET", "HEAD", "POST"):
            return PlainTextResponse("Not allowed.", 405)
        own = f"http://{host}"
        origin = headers.get("origin")
        if (method == "POST" and origin != own) or (origin is not None and origin != own):
            return PlainTextResponse("Requests from other pages are refused.", 403)
        offered = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if method == "GET" and self.token and _same(offered, self.token):
            self.token = None  # it works once
            # Not a redirect: the browser would follow it for the page that led here, and keep a
            # strict cookie back.
            answer = HTMLResponse(_led("/"))
            answer.set_cookie(self._cookie, self._session, httponly=True, samesite="strict")
            return answer
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return PlainTextResponse("Requests from other pages are refused.", 403)
        if self._has_session(headers):
            return None
        return HTMLResponse(_refused(self.way_in), 403)

    def _has_session(self, headers: Headers) -> bool:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return found is not None and _same(found.value, self._session)


def _same(offered: str, kept: str) -> bool:
    """Whether a secret was given, in a time that does not tell how much of it was right."""
    return hmac.compare_digest(offered.encode("utf-8", "surrogateescape"), kept.encode())


def _led(place: str) -> str:
    """A page that leads on to another place at once."""
    return (
        '<!doctype html><meta charset="utf-8"><title>Sfumato</title>'
        '<link rel="icon" href="/static/icon.svg">'
        f'<meta http-equiv="refresh" content="0; url={escape(place)}">'
        f'<p><a href="{escape(place)}">To the workbench</a></p>'
    )


def _refused(way_in: str) -> str:
    """A page for a browser that has no way in yet; it loads nothing."""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<title>Sfumato</title><main><h1>This browser is not let in yet</h1>"
        f"<p>{escape(way_in)}</p></main></html>"
    )


@contextmanager
def entrance(link: str) -> Iterator[str]:
    """The address of a file that leads to the link, and that nobody else can read."""
    with tempfile.TemporaryDirectory(prefix="sfumato-") as folder:  # of mode 0700
        page = Path(folder, "workbench.html")
        page.touch(mode=0o600, exist_ok=False)
        page.write_text(_led(link), encoding="utf-8")
        yield page.as_uri()


def _owner(port: int, ours: int) -> int | None:
    """The user whose connection from a port of this machine leads to ours; None if unknown."""
    found = _asked_owner(port, ours)
    return _listed_owner(port, ours) if found is None else found


def _asked_owner(port: int, ours: int) -> int | None:
    """What the kernel says of one connection (Linux, sock_diag(7)).

    Its list of all connections takes it milliseconds, during which no page is answered.
    """
    family = getattr(socket, "AF_NETLINK", None)
    if family is None:
        return None
    here, anything = socket.inet_aton("127.0.0.1"), 0xFFFFFFFF
    asked = struct.pack("=BBxxI", socket.AF_INET, socket.IPPROTO_TCP, anything)
    asked += struct.pack("!HH16s16s", port, ours, here, here)
    asked += struct.pack("=III", 0, anything, anything)  # on any device, with any cookie
    head = struct.pack("=IHHII", 16 + len(asked), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0)
    with (
        suppress(OSError, struct.error),
        socket.socket(family, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel,
    ):
        kernel.settimeout(0.1)
        kernel.send(head + asked)
        answer = kernel.recv(4096)
        if struct.unpack_from("=H", answer, 4) == (SOCK_DIAG_BY_FAMILY,):
            return int(struct.unpack_from("=I", answer, 16 + UID_AT)[0])
    return None


def _listed_owner(port: int, ours: int) -> int | None:
    """What the list of all connections says (Linux)."""
    ends = (f":{port:04X}", f":{ours:04X}")
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError, ValueError, IndexError):
            for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[1].endswith(ends[0]) and fields[2].endswith(ends[1]):
                    return int(fields[7])
    return None


class Server:
    """The workbench behind its guard, listening on 127.0.0.1 and nowhere else.

    Parameters
    ----------
    port
        0 takes any that is free.
    """

    def __init__(self, workbench: Workbench, port: int = 0) -> None:
        self._socket = socket.socket()
        if os.name == "posix":  # elsewhere it would let two servers share a port
            # Connections of a server that has ended linger: they do not keep its port.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind(("127.0.0.1", port))
            # From now on nobody else gets the port, and whoever follows the link early has to wait.
            self._socket.listen()
        except OSError as error:
            self._socket.close()
            raise EngineError(
                f"port {port} cannot be used ({error.strerror})", remedy="Choose another --port."
            ) from error
        self.port: int = self._socket.getsockname()[1]
        self._workbench = workbench
        self.guard = Guard(workbench.app, self.port)
        settings = uvicorn.Config(
            self.guard,
            log_level="warning",
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=2,
            lifespan="on",
            ws="none",
        )
        self._server = uvicorn.Server(settings)

    def run(self, ready: Callable[[str], None] = lambda link: None) -> None:
        """Serve until interrupted or told to stop; `ready` gets the link to open."""
        usual = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH)
        try:
            ready(self.guard.link)
            with drawing.in_own_process():
                self._server.run(sockets=[self._socket])
        finally:
            sys.setswitchinterval(usual)
            # A server that is interrupted twice, or before it began, ends without having closed.
            self._workbench.close()
            self._socket.close()

    def stop(self) -> None:
        """End `run` from another thread."""
        self._server.should_exit = True
