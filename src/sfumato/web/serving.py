"""Starts the workbench on this machine's own address."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn

from sfumato.errors import EngineError
from sfumato.web.app import Workbench
from sfumato.web.guard import Guard

__all__ = ["Server"]


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
