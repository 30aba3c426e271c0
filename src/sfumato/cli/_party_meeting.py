"""How this party meets the other one: the options every ``sfumato party`` command shares."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli._places import parse_address
from sfumato.cli._running import Run, table_verb, verb
from sfumato.errors import ParameterError
from sfumato.files import require_file

if TYPE_CHECKING:
    from sfumato.secure import TLS, Session

__all__ = ["Me", "Meeting", "party_verb", "rows_verb"]

MEETING = "Meeting the other party"


class Me(StrEnum):
    """Which of the two this side is."""

    alice = "alice"
    bob = "bob"


@dataclass(frozen=True)
class Meeting:
    """Who this side is, where the two meet, and by what they know each other."""

    me: Me
    peer: str | None
    listen: str | None
    cert: str | None
    key: str | None
    peer_cert: str | None
    plain: bool
    timeout: float

    def __post_init__(self) -> None:
        if bool(self.peer) == bool(self.listen):
            raise ParameterError(
                "one side listens, the other connects",
                remedy="Use --listen HOST:PORT on one side and --peer HOST:PORT on the other.",
            )
        given = [self.cert, self.key, self.peer_cert]
        if self.plain == any(given) or (any(given) and not all(given)):
            raise ParameterError(
                "the two sides know each other by certificates",
                remedy="Use --cert, --key and --peer-cert (`sfumato party keys` makes them), "
                "or --plain between processes of one machine.",
            )
        for path in self.files:
            require_file(path, "a certificate or key")
        if not 0 < self.timeout <= 86_400:
            raise ParameterError(
                "--timeout is a number of seconds, at most a day", remedy="Write e.g. --timeout 60."
            )
        self._place()
        if tls := self._tls():
            tls.context(server=bool(self.listen))

    @property
    def files(self) -> tuple[str, ...]:
        """Certificates and key."""
        return tuple(filter(None, (self.cert, self.key, self.peer_cert)))

    def meet(self, run: Run, program: str, parameters: Mapping[str, Any]) -> Session:
        """Make compiled code ready, then wait for the other party."""
        from sfumato import secure

        secure.warm_up(run.budget.progress)
        address, meet = self._place()
        run.budget.progress("waiting for the other party")
        session = meet(
            self.me.value,
            address,
            program=program,
            parameters=parameters,
            tls=self._tls(),
            timeout=self.timeout,
        )
        session.on_progress = run.budget.progress
        return session

    def _tls(self) -> TLS | None:
        from sfumato import secure

        return secure.TLS(*map(Path, self.files)) if self.files else None

    def _place(self) -> tuple[tuple[str, int], Callable[..., Session]]:
        from sfumato import secure

        if self.listen:
            return parse_address(self.listen, "--listen"), secure.listen
        return parse_address(self.peer or "", "--peer"), secure.connect


def _option(name: str, metavar: str, text: str) -> Any:
    return typer.Option(
        name, metavar=metavar, show_default=False, rich_help_panel=MEETING, help=text
    )


_OPTIONS: dict[str, tuple[Any, Any]] = {
    "me": (
        Annotated[
            Me,
            typer.Option(
                "--me",
                show_default=False,
                rich_help_panel=MEETING,
                help="Who this side is: one of you is alice, the other bob.",
            ),
        ],
        inspect.Parameter.empty,
    ),
    "peer": (
        Annotated[str | None, _option("--peer", "HOST:PORT", "Where the other side listens.")],
        None,
    ),
    "listen": (
        Annotated[str | None, _option("--listen", "HOST:PORT", "Listen here for the other side.")],
        None,
    ),
    "cert": (Annotated[str | None, _option("--cert", "FILE", "My certificate.")], None),
    "key": (Annotated[str | None, _option("--key", "FILE", "My private key.")], None),
    "peer_cert": (
        Annotated[str | None, _option("--peer-cert", "FILE", "The other side's certificate.")],
        None,
    ),
    "plain": (
        Annotated[
            bool,
            typer.Option(
                "--plain",
                rich_help_panel=MEETING,
                help="No encryption: between processes of one machine only.",
            ),
        ],
        False,
    ),
    "timeout": (
        Annotated[
            float,
            typer.Option(
                "--timeout",
                metavar="SECONDS",
                rich_help_panel=MEETING,
                help="How long to wait for the other side, at the start and at each step.",
            ),
        ],
        60.0,
    ),
}
_ROWS = Annotated[
    str,
    typer.Option(
        "--rows",
        metavar="TABLE",
        show_default=False,
        help="This side's rows: a file or database table, as every verb takes it.",
    ),
]


def party_verb(function: Callable[..., None]) -> Callable[..., None]:
    """Make a command of a function that takes a `Run`, a `Meeting` and its own options."""
    return verb(_meeting(function))


def rows_verb(function: Callable[..., None]) -> Callable[..., None]:
    """Like `party_verb`, with a table after --rows, found in `run.table`."""
    return table_verb(_meeting(function, source=_ROWS))


def _meeting(function: Callable[..., None], **added: Any) -> Callable[..., None]:
    signature = inspect.signature(function, eval_str=True)
    run, _, *own = signature.parameters.values()
    shared = {**{name: (kind, inspect.Parameter.empty) for name, kind in added.items()}, **_OPTIONS}
    assert [field.name for field in fields(Meeting)] == list(_OPTIONS)

    def command(run: Run, **given: Any) -> None:
        run.source = given.pop("source", None)
        meeting = Meeting(**{name: given.pop(name) for name in _OPTIONS})
        function(run, meeting, **given)

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [p.replace(kind=keyword) for p in own]
    parameters += [
        inspect.Parameter(name, keyword, default=default, annotation=kind)
        for name, (kind, default) in shared.items()
    ]
    command.__signature__ = inspect.Signature([run, *parameters])  # type: ignore[attr-defined]
    command.__name__, command.__doc__ = function.__name__, function.__doc__
    return command
