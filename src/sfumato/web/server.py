"""Who may talk to the workbench: the browser that opened the link, and no other page in it.

The link carries a token that works once; it is exchanged for a cookie. Requests must name this
machine as their host (a page that resolves its own name to 127.0.0.1 is refused) and, where they
change something, come from the workbench's own pages. Answers forbid the browser to load or to run
anything from elsewhere.
"""

from __future__ import annotations

import hmac
import secrets
import socket
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

import uvicorn
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sfumato.errors import EngineError
from sfumato.web.app import Workbench

__all__ = [
    "Guard",
    "Server",
]


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


class Guard:
    """Lets requests through to `app`, or answers them itself."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        self.app = app
        self.port = port
        self.token: str | None = secrets.token_urlsafe(32)
        self._session = secrets.token_urlsafe(32)
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self._cookie = f"sfumato_{port}"

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
        answer = self._refusal(scope)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        await (answer or self.app)(scope, receive, guarded)

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
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return PlainTextResponse("Requests from other pages are refused.", 403)
        if self._has_session(headers):
            return None
        offered = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if method == "GET" and self.token and _same(offered, self.token):
            self.token = None  # it works once
            answer = RedirectResponse("/", 303)
            answer.set_cookie(self._cookie, self._session, httponly=True, samesite="strict")
            return answer
        return PlainTextResponse(
            "Open the link that `sfumato serve` printed; it works once, in one browser.", 403
        )

    def _has_session(self, headers: Headers) -> bool:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return found is not None and _same(found.value, self._session)


def _same(offered: str, kept: str) -> bool:
    """Whether a secret was given, in a time that does not tell how much of it was right."""
    return hmac.compare_digest(offered.encode("utf-8", "surrogateescape"), kept.encode())


class Server:
    """The workbench behind its guard, listening on 127.0.0.1 and nowhere else.

    Parameters
    ----------
    port
        0 takes any that is free.
    """

    def __init__(self, workbench: Workbench, port: int = 0) -> None:
        self._socket = socket.socket()
        try:
            self._socket.bind(("127.0.0.1", port))
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
        try:
            self._socket.listen()  # whoever follows the link before the loop turns has to wait
            ready(self.guard.link)
            self._server.run(sockets=[self._socket])
        finally:
            # A server that is interrupted twice, or before it began, ends without having closed.
            self._workbench.close()
            self._socket.close()

    def stop(self) -> None:
        """End `run` from another thread."""
        self._server.should_exit = True
