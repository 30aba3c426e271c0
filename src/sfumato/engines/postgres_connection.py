"""Connections to PostgreSQL that say clearly what went wrong and never tell a password."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from sfumato.errors import EngineError, MissingExtraError, SfumatoError, SourceError

if TYPE_CHECKING:
    import psycopg

__all__ = ["Server"]

_SECRETS = ("password", "sslpassword")

_SETTINGS = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "iso_8601",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    # A scan that starts where another one happens to be would make samples differ.
    "synchronize_seqscans": "off",
}
"""How values are written on their way to us, whatever the server's own taste."""


class Server:
    """Where to connect to, and as whom.

    Parameters
    ----------
    url
        A connection URL as libpq reads it.

    Examples
    --------
    >>> Server("postgresql://ann:secret@db.example/census?sslmode=require").shown
    'postgresql://ann@db.example/census?sslmode=require'
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.shown, self._secrets = _without_secrets(url)

    def __repr__(self) -> str:
        return f"<Server {self.shown}>"

    def connect(self, *, writable: bool = False) -> psycopg.Connection[Any]:
        """A new connection; statements outside a transaction commit by themselves."""
        try:
            import psycopg
        except ImportError:
            raise MissingExtraError("postgres", "a PostgreSQL table") from None
        try:
            connection = psycopg.connect(
                self.url, autocommit=True, application_name="sfumato", client_encoding="UTF8"
            )
        except psycopg.Error as error:
            raise EngineError(
                f"cannot connect: {self._said(error)}",
                where=self.shown,
                remedy="Check that the server runs and that host, port, database, user and "
                "password are right.",
            ) from None
        with self.guarded(self.shown):
            for name, value in _SETTINGS.items():
                connection.execute("SELECT set_config(%s, %s, false)", (name, value))
            if not writable:
                connection.execute("SET default_transaction_read_only = on")
        return connection

    def same_database(self, url: str) -> bool:
        """Whether another URL leads to the same database of the same server."""
        from psycopg.conninfo import conninfo_to_dict

        mine, other = conninfo_to_dict(self.url), conninfo_to_dict(url)
        places = ("host", "hostaddr", "port", "dbname")
        return all(str(mine.get(key, "")) == str(other.get(key, "")) for key in places)

    @contextmanager
    def guarded(self, where: str) -> Iterator[None]:
        """Turn the driver's errors into ours."""
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            raise self._translated(error, where) from None

    def _translated(self, error: psycopg.Error, where: str) -> SfumatoError:
        import psycopg

        state = error.sqlstate
        if state is None or state.startswith(("08", "57P")):
            return EngineError(
                "the connection to PostgreSQL was lost",
                where=where,
                remedy="Check that the server still runs, then start again; nothing was published.",
            )
        if state.startswith("42") and not isinstance(error, psycopg.errors.InsufficientPrivilege):
            return SourceError(
                f"PostgreSQL does not understand this: {self._said(error)}",
                where=where,
                remedy="Check the names of schema, table and columns after the #.",
            )
        if isinstance(error, psycopg.errors.InsufficientPrivilege):
            return EngineError(
                self._said(error), where=where, remedy="Ask the owner for the right to do this."
            )
        if isinstance(error, (psycopg.errors.DiskFull, psycopg.errors.OutOfMemory)):
            return EngineError(
                f"the server ran out of room: {self._said(error)}",
                where=where,
                remedy="Free space on the server; nothing was published.",
            )
        if isinstance(error, psycopg.errors.LockNotAvailable):
            return EngineError(
                "somebody else is using the table to be replaced",
                where=where,
                remedy="Try again when they are done.",
            )
        # Messages about data quote it.
        told = "" if state.startswith(("22", "23")) else f": {self._said(error)}"
        return EngineError(
            f"PostgreSQL refused ({type(error).__name__}, SQLSTATE {state}){told}",
            where=where,
            remedy="If the table was changed meanwhile, start again.",
        )

    def _said(self, error: psycopg.Error) -> str:
        """The server's words in one line, without any secret."""
        said = " ".join((error.diag.message_primary or str(error)).split())
        for secret in self._secrets:
            said = said.replace(secret, "***")
        return said.rstrip(".")


def _without_secrets(url: str) -> tuple[str, list[str]]:
    parts = urlsplit(url)
    secrets = []
    netloc = parts.netloc
    if "@" in netloc:
        user, _, host = netloc.rpartition("@")
        name, _, password = user.partition(":")
        secrets += [password, unquote(password)]
        netloc = f"{name}@{host}" if name else host
    query = parse_qsl(parts.query, keep_blank_values=True)
    secrets += [value for key, value in query if key in _SECRETS]
    kept = urlencode([(key, value) for key, value in query if key not in _SECRETS], safe="/")
    shown = urlunsplit((parts.scheme, netloc, parts.path, kept, ""))
    return shown, [secret for secret in secrets if secret]
