"""What one of two parties does: bring its table, meet the other, and compute with it.

The only module of this package that reads tables; all others work on arrays and shares. Both sides
call the same function with the same options, each with its own rows, and get the same result.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from sfumato.budget import Budget
from sfumato.errors import ColumnError, ParameterError, SourceError, did_you_mean, spell
from sfumato.fields import checked
from sfumato.files import read_text, require_file
from sfumato.results import Result
from sfumato.secure.channel import check_timeout
from sfumato.secure.session import Session, SessionReport, connect, listen, together
from sfumato.secure.tls import TLS, Address, parse_address

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sfumato.secure.bayes import BayesNet
    from sfumato.secure.counting import HeldCells, HeldRows, Schema
    from sfumato.secure.decision_tree import DecisionTree


Split = Literal["rows", "cells"]
Found = TypeVar("Found", bound=Result)

MISSING = "(missing)"
"""The category of empty cells, where each side has whole rows."""
_LARGEST_SUM_BITS = 40
_FEW_CELLS = 20_000
"""Cells on one side up to which nothing is compiled before the two meet."""
_BOUNDS = ("error", "tolerance")
"""Fields that are no part of what both sides found: their last digits may depend on the machine."""
_WRITTEN = 'Write e.g. {"sex": ["f", "m"], "stage": ["I", "II"]}'


@dataclass(frozen=True)
class Meeting:
    """Who this side is, where the two meet, and how they recognise each other.

    Parameters
    ----------
    me
        ``"alice"`` on one side, ``"bob"`` on the other.
    peer, listen
        ``HOST:PORT``: where the other side listens, or where this side does. One of the two.
    cert, key, peer_cert
        This side's certificate and private key (`make_keys`), and the other's certificate.
    plain
        No encryption and no certificates: between processes of one machine only.
    timeout
        Seconds to wait for the other side, at the start and at each step.
    budget
        The time that all of it may take; it hears what is being done, and how much of it is
        finished.

    Examples
    --------
    >>> Meeting("alice", listen="127.0.0.1:7000", plain=True).address
    ('127.0.0.1', 7000)
    """

    me: str
    peer: str | None = None
    listen: str | None = None
    cert: str | Path | None = None
    key: str | Path | None = None
    peer_cert: str | Path | None = None
    plain: bool = False
    timeout: float = 60.0
    budget: Budget | None = None

    def __post_init__(self) -> None:
        if bool(self.peer) == bool(self.listen):
            raise ParameterError(
                "one side listens, the other connects to it",
                remedy="Use --listen HOST:PORT on one side and --peer HOST:PORT on the other "
                "(listen=, peer= in Python).",
            )
        given = [self.cert, self.key, self.peer_cert]
        if self.plain == any(given) or (any(given) and not all(given)):
            raise ParameterError(
                "the two sides recognise each other by certificates",
                remedy="Use --cert, --key and --peer-cert (`sfumato party keys` makes them), or "
                "--plain between processes of one machine (cert=, key=, peer_cert=, plain=True in "
                "Python).",
            )
        for path in self.files:
            require_file(path, "a certificate or key")
        check_timeout(self.timeout)
        _ = self.address
        if tls := self._tls():
            tls.context(server=bool(self.listen))

    @property
    def files(self) -> tuple[str, ...]:
        """Certificates and key."""
        return tuple(str(path) for path in (self.cert, self.key, self.peer_cert) if path)

    @property
    def address(self) -> Address:
        """Host and port where the two meet."""
        if self.listen:
            return parse_address(self.listen, "--listen")
        return parse_address(self.peer or "", "--peer")

    def meet(self, program: str, parameters: Mapping[str, Any], *, cells: int) -> Session:
        """Compile what so many cells (or numbers) need, then wait for the other party and greet it.

        Few need none. Where they do after all, it is compiled while the other party waits.
        """
        budget = self.budget or Budget()
        if cells > _FEW_CELLS:
            warm_up(budget.progress, odd=False)
        budget.progress("waiting for the other party")
        session = (listen if self.listen else connect)(
            self.me,
            self.address,
            program=program,
            parameters=parameters,
            tls=self._tls(),
            timeout=self.timeout,
            budget=budget,
        )
        session.on_progress = budget.progress
        return session

    def _tls(self) -> TLS | None:
        return TLS(*map(Path, self.files)) if self.files else None


@dataclass(frozen=True)
class Outcome(Result, Generic[Found]):
    """What both sides found, what the session cost this side, and who learned what."""

    found: Found
    session: SessionReport
    output: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The result's own fields, then `session` and `output`."""
        told = {"session": self.session.to_dict(), "output": self.output}
        return {**self.found.to_dict(), **told}


@dataclass(frozen=True)
class Logarithms(Result):
    """Logarithms of sums, and how far off each is at most; natural ones unless `base` is ``2``."""

    logarithms: tuple[float, ...]
    error: float
    base: str = "e"


@checked
def log_of_sums(
    numbers: Sequence[int],
    *,
    peer: Meeting | Session,
    dual: bool = False,
    quick: bool = False,
    modulus: int | None = None,
    bits: int | None = None,
    terms: int | None = None,
    precision: int | None = None,
    backend: str = "ot",
    scaling: str | None = None,
) -> Outcome[Logarithms]:
    """Natural logarithms of sums of which each side knows one part.

    Whoever knows a sum and one part knows the other part: a demonstration, not a protection.

    Parameters
    ----------
    numbers
        This side's part of each sum, at least 1.
    peer
        How to meet the other side, or a session with it.
    dual
        Compute everything twice with exchanged roles: a party that does not follow the protocol
        is caught, and learns at most one bit beyond the result.
    quick
        The base-two logarithm of section 6 of Ryger, Kardes & Wright instead.
    modulus
        Compute in the paper's setting, modulo this odd number; by default in the fast one.
    bits
        Every sum is below 2^bits.
    terms, precision, backend
        Of the polynomial, as `sfumato.secure.log` takes them.
    scaling
        With a modulus, how n becomes n · ln 2: ``"whole"``, ``"table"``, ``"exact"`` or
        ``"statistical"``, as `sfumato.secure.log` takes it.

    Examples
    --------
    >>> from sfumato import secure
    >>> def party(session):
    ...     return secure.log_of_sums([600 if session.is_alice else 400], peer=session)
    >>> alice, bob = secure.together(party, party)
    >>> round(alice.found.logarithms[0], 3), alice.found == bob.found  # ln 1000
    (6.908, True)
    """
    from sfumato.secure.logarithm import (
        QUICK_ERROR,
        LogSettings,
        log,
        log2_quick,
        log_error,
        log_opened,
        log_opened_error,
    )
    from sfumato.secure.shares import Ring, private, reveal_real

    width = _LARGEST_SUM_BITS if bits is None else bits
    exactly: LogSettings = {
        "bits": width, "terms": terms, "precision": precision, "scaling": scaling
    }  # fmt: skip
    settings = {"modulus": modulus, **exactly, "bits": bits}
    asked = {name: value for name, value in settings.items() if value is not None}
    if dual and (asked or quick or backend != "ot"):
        raise ParameterError(
            "dual execution has one setting", remedy="Leave the other options out, or --dual."
        )
    if quick and (terms or precision or scaling or backend != "ot"):
        raise ParameterError(
            "the quick logarithm evaluates no polynomial and scales nothing",
            remedy="Leave terms, precision, backend and scaling out.",
        )
    _check_sums(numbers, width, modulus)
    ring = Ring.power_of_two(64) if modulus is None else Ring.odd(modulus)
    if not (quick or dual):
        log_error(ring, **exactly)  # what does not fit is told before anybody is met

    def compute(session: Session) -> Logarithms:
        if dual:
            opened = log_opened(session, numbers, bits=_LARGEST_SUM_BITS)
            error = log_opened_error(_LARGEST_SUM_BITS)
        elif quick:
            shares = log2_quick(session, private(ring, list(numbers)), bits=width)
            opened = reveal_real(session, shares, what="the base-two logarithms of the sums")
            error = QUICK_ERROR
        else:
            shares = log(session, private(ring, list(numbers)), backend=backend, **exactly)
            opened = reveal_real(session, shares, what="the logarithms of the sums")
            error = log_error(ring, **exactly)
        return Logarithms(tuple(map(float, opened)), error, base="2" if quick else "e")

    told = {"numbers": len(numbers), "dual": dual, "quick": quick, "backend": backend, **asked}
    return _together(peer, "log", told, compute, cells=len(numbers))


def _check_sums(numbers: Sequence[int], width: int, modulus: int | None) -> None:
    """Refuse parts of sums, and moduli, that have no logarithms."""
    if not 2 <= width <= _LARGEST_SUM_BITS:
        raise ParameterError(f"sums have 2 to {_LARGEST_SUM_BITS} bits", where="--bits")
    if modulus is not None and (modulus < 3 or modulus % 2 == 0):
        raise ParameterError(
            "the paper's setting needs an odd modulus",
            where="--modulus",
            remedy=f"For example {2**60 - 93}, a prime of 60 bits.",
        )
    largest = (1 << (width - 1)) - 1
    if not all(1 <= part <= largest for part in numbers):
        # 0 + 0 has no logarithm, and neither side could see that it was asked for
        raise ParameterError(
            "each part of a sum must be a positive whole number",
            where="--number",
            remedy=f"Use 1 to {largest:,}.",
        )


@checked
def id3(
    rows: Any,
    *,
    target: str,
    peer: Meeting | Session,
    columns: Sequence[str] | None = None,
    max_depth: int | None = None,
    min_rows: int = 2,
    fine: bool = False,
    setting: str = "fast",
    terms: int | None = None,
    backend: str | None = None,
    split: Split = "rows",
    schema: Schema | None = None,
    share_categories: bool = False,
    max_values: int = 64,
) -> Outcome[DecisionTree]:
    """The decision tree of both sides' rows, as if pooled.

    Both sides learn the tree, but neither counts nor gains; where each has whole rows also the
    other's number of rows, to within a factor of two.

    Parameters
    ----------
    rows
        This side's table: anything `sfumato.table` opens. All columns are taken as categories.
    target
        The column to predict.
    peer
        How to meet the other side, or a session with it.
    columns
        The columns to use; all if None.
    max_depth, min_rows, fine
        When the tree stops growing, and how exactly it is computed: see `grow_tree`.
    setting
        ``"fast"``, or ``"paper"``: modulo a prime, with the Taylor series and Paillier's
        encryption, as Ryger, Kardes & Wright have it; hundreds of times slower.
    terms, backend
        Terms of the series in the paper's setting (default 5); ``"ot"`` or ``"paillier"``.
    split
        Each side has whole ``"rows"``; or both have the same rows in the same order and each some
        ``"cells"``: an empty cell is the other side's.
    schema
        Columns and categories both agreed on.
    share_categories
        Instead of a schema: the two tell each other which categories occur in which columns, in
        clear. Look first: `told_categories`.
    max_values
        Refuse columns with more categories.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from sfumato import secure
    >>> tables = {
    ...     "alice": pa.table({"smokes": ["yes", "no", "no"], "ill": ["yes", "no", "no"]}),
    ...     "bob": pa.table({"smokes": ["yes", "yes"], "ill": ["yes", "yes"]}),
    ... }
    >>> def party(session):
    ...     rows = tables[session.role]
    ...     return secure.id3(rows, target="ill", peer=session, share_categories=True).found
    >>> alice, bob = secure.together(party, party)
    >>> alice == bob, alice.to_dict()["tree"]["column"]
    (True, 'smokes')
    """
    from sfumato.secure.decision_tree import grow_tree
    from sfumato.secure.logarithm import Setting

    chosen = Setting(setting, terms, backend)
    if columns is not None and split == "rows" and target not in columns:
        columns = (*columns, target)
    own = LocalTable(rows, columns, split, max_values)
    own.require([target], schema)
    own.require_complete(target)
    own.require_consent(schema, share_categories)
    options: dict[str, Any] = {
        "target": target, "max_depth": max_depth, "min_rows": min_rows, "fine": fine
    }  # fmt: skip
    return _together(
        peer,
        "id3",
        {**options, **chosen.facts, **own.facts(schema)},
        lambda session: grow_tree(session, own.agreed(session, schema), setting=chosen, **options),
        cells=own.cells,
    )


@checked
def bayes_net(
    rows: Any,
    *,
    peer: Meeting | Session,
    columns: Sequence[str] | None = None,
    order: Sequence[str] | None = None,
    max_parents: int = 2,
    score: str = "burnside",
    setting: str = "fast",
    terms: int | None = None,
    backend: str | None = None,
    split: Split = "rows",
    schema: Schema | None = None,
    share_categories: bool = False,
    max_values: int = 64,
) -> Outcome[BayesNet]:
    """Which columns depend on which: the Bayes net of both sides' rows, as if pooled.

    Both sides learn the arrows, but neither counts nor scores; where each has whole rows also the
    other's number of rows, to within a factor of two.

    Parameters
    ----------
    order
        Columns in an order in which causes come before effects; as in Alice's table if None.
    max_parents, score
        See `search_net`.
    rows, peer, columns, setting, terms, backend, split, schema, share_categories, max_values
        See `id3`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from sfumato import secure
    >>> days = pa.table({"rain": ["no", "yes"] * 10, "wet": ["no", "yes"] * 10})
    >>> def party(session):
    ...     return secure.bayes_net(days, peer=session, share_categories=True).found.arrows
    >>> secure.together(party, party)
    ((('rain', 'wet'),), (('rain', 'wet'),))
    """
    from sfumato.secure.bayes import search_net
    from sfumato.secure.logarithm import Setting

    chosen = Setting(setting, terms, backend)
    own = LocalTable(rows, columns, split, max_values)
    own.require(order or [], schema)
    own.require_consent(schema, share_categories)
    options: dict[str, Any] = {
        "order": None if order is None else list(order), "max_parents": max_parents, "score": score
    }  # fmt: skip
    return _together(
        peer,
        "bayes",
        {**options, **chosen.facts, **own.facts(schema)},
        lambda session: search_net(session, own.agreed(session, schema), setting=chosen, **options),
        cells=own.cells,
    )


def warm_up(progress: Callable[[str], None] | None = None, *, odd: bool = True) -> float:
    """Compile or load every kernel now, before a peer waits; returns the seconds it took.

    The compiled code is kept on disk: only the first run on a machine compiles.

    Parameters
    ----------
    progress
        Receives one line if anything must be compiled.
    odd
        Also those for rings with an odd modulus and for numbers of more than 64 bits, which are
        otherwise compiled when they are first needed.
    """
    started = time.monotonic()
    import numpy as np

    from sfumato.kernels.compiling import without_delay
    from sfumato.secure.counting import scalar_product
    from sfumato.secure.logarithm import log
    from sfumato.secure.shares import Ring, private

    def party(session: Session) -> None:
        for ring in (Ring.power_of_two(64), *([Ring.odd((1 << 60) - 93)] if odd else [])):
            numbers = private(ring, [3, 4])
            log(session, numbers, bits=10)
            scalar_product(session, np.ones(64, bool), ring=Ring.power_of_two(32))

    with _said_when_compiling(progress), without_delay():
        together(party, party, program="warm-up")
    return time.monotonic() - started


@contextlib.contextmanager
def _said_when_compiling(progress: Callable[[str], None] | None) -> Iterator[None]:
    """Say once that it takes a while, as soon as a kernel is not found on disk."""
    if progress is None:
        yield
        return
    from numba.core import event

    left = [progress]

    class FirstCompiled(event.Listener):  # type: ignore[misc]  # numba has no types
        def on_start(self, event: object) -> None:
            if left:
                left.pop()("preparing compiled code (once on this machine, up to half a minute)")

        def on_end(self, event: object) -> None:
            """Nothing more to say."""

    with event.install_listener("numba:compile", FirstCompiled()):
        yield


def _together(
    peer: Meeting | Session,
    program: str,
    parameters: Mapping[str, Any],
    compute: Callable[[Session], Found],
    *,
    cells: int,
) -> Outcome[Found]:
    """Compute in a session at hand; else meet, and return once both sides have finished."""
    if isinstance(peer, Session):
        return Outcome(compute(peer), peer.report())
    with peer.meet(program, parameters, cells=cells) as session:
        found = compute(session)
        told = {k: v for k, v in found.to_dict().items() if k not in _BOUNDS}
        session.note_opened(json.dumps(told, sort_keys=True).encode())
    return Outcome(found, session.report())


@checked
def read_schema(path: str | Path) -> Schema:
    """Columns and categories from a JSON file, as both sides agreed on them."""
    from sfumato.secure.counting import Schema

    try:
        told = json.loads(read_text(path, "the schema"))
    except (ValueError, RecursionError) as error:
        raise SourceError("this is not JSON", where=str(path), remedy=_WRITTEN) from error
    if not isinstance(told, dict) or not all(
        isinstance(values, list) and all(isinstance(value, str) for value in values)
        for values in told.values()
    ):
        raise SourceError(
            "a schema names columns, each with a list of categories as text",
            where=str(path),
            remedy=_WRITTEN,
        )
    return Schema.of(told)


@dataclass(frozen=True)
class ToldCategories(Result):
    """What `share_categories` tells the other side: the categories of each column, in clear."""

    columns: Mapping[str, tuple[str, ...]]


@checked
def told_categories(
    rows: Any, columns: Sequence[str] | None = None, *, split: Split = "rows", max_values: int = 64
) -> ToldCategories:
    """What this side would tell the other with `share_categories`; nothing is sent.

    Examples
    --------
    >>> import pyarrow as pa
    >>> told_categories(pa.table({"stage": [2, 1, None], "sex": ["f", "m", "f"]})).columns
    {'stage': ('1', '2', '(missing)'), 'sex': ('f', 'm')}
    """
    from sfumato.secure.counting import category_rank

    own = LocalTable(rows, columns, split, max_values)
    return ToldCategories(
        {name: tuple(sorted(held, key=category_rank)) for name, held in own.categories.items()}
    )


class LocalTable:
    """The chosen columns of this side's table as codes of categories, the form that is counted.

    Parameters
    ----------
    rows
        Anything `sfumato.table` opens.
    columns
        The columns to use; all if None.
    split
        Whole rows, or cells of common rows: then an empty cell is the other side's.
    max_values
        No column may have more categories: they are told to the other side.
    """

    def __init__(
        self, rows: Any, columns: Sequence[str] | None, split: Split, max_values: int
    ) -> None:
        from sfumato.tables.open import opened

        if split not in ("rows", "cells"):
            raise ParameterError(f"`{split}` is not a way to split", remedy="Use rows or cells.")
        self.split = split
        self.max_values = max_values
        self.categories: dict[str, list[str]] = {}
        self._codes: dict[str, NDArray[np.int64]] = {}
        with opened(rows) as own:
            read = own.select(columns).to_arrow() if columns is not None else own.to_arrow()
        self.rows = read.num_rows
        for name in read.column_names:
            self._encode(name, read.column(name))

    def _encode(self, name: str, cells: Any) -> None:
        import numpy as np

        encoded = cells.combine_chunks().dictionary_encode()
        try:
            held = encoded.dictionary.to_pylist()
        except (OverflowError, ValueError):
            raise ColumnError(
                f"column `{name}` holds times that no calendar has",
                remedy="Leave it out (-x), or correct them.",
            ) from None
        # two values may have one text, as 0.0 and -0.0 do; that of a column without any is None
        texts = [None if value is None else _text(value) for value in held]
        values = list(dict.fromkeys(text for text in texts if text is not None))
        place = {text: at for at, text in enumerate(values)}
        places = np.array([*(-1 if text is None else place[text] for text in texts), -1], np.int64)
        codes = places[encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
        if self.split == "rows" and (codes < 0).any():
            if MISSING in values:
                raise ColumnError(
                    f"column `{name}` has empty cells and also the category {MISSING}",
                    remedy="Fill the empty cells.",
                )
            codes[codes < 0] = len(values)
            values.append(MISSING)
        if len(values) > self.max_values:
            raise ColumnError(
                f"column `{name}` has {len(values):,} different values",
                remedy="Leave it out (-x), make it coarser, or raise --max-values (max_values=).",
            )
        self.categories[name], self._codes[name] = values, codes

    @property
    def cells(self) -> int:
        """Rows times columns."""
        return int(self.rows) * len(self.categories)

    def facts(self, schema: Schema | None) -> dict[str, Any]:
        """What both sides must agree on."""
        return {"split": self.split, "schema": None if schema is None else schema.digests()}

    def held(self, schema: Schema) -> HeldRows | HeldCells:
        """The table in terms of the schema, whose order of columns it takes."""
        import numpy as np

        from sfumato.secure.counting import HeldCells, HeldRows

        unknown = [name for name in self.categories if name not in schema.columns]
        lacking = [name for name in schema.columns if name not in self.categories]
        if unknown:
            raise ColumnError(
                f"column `{unknown[0]}` is not in the schema",
                remedy=did_you_mean(unknown[0], schema.columns),
            )
        if lacking and self.split == "rows":
            raise ColumnError(
                f"column `{lacking[0]}` of the schema is not in this table",
                remedy="Add it, or agree on a schema without it.",
            )
        codes = np.full((self.rows, len(schema.columns)), -1, np.int64)
        for name, values in self.categories.items():
            at = schema.position(name)
            place = {value: i for i, value in enumerate(schema.values[at])}
            outside = sum(value not in place for value in values)
            if outside:
                raise ColumnError(
                    f"column `{name}` has {outside:,} categories that the schema does not name",
                    remedy="Add them to the schema, on both sides.",
                )
            translated = np.array([*(place[value] for value in values), -1], np.int64)
            codes[:, at] = translated[self._codes[name]]
        return HeldRows(schema, codes) if self.split == "rows" else HeldCells(schema, codes)

    def agreed(self, session: Session, schema: Schema | None) -> HeldRows | HeldCells:
        """The table as both sides see it: by a schema at hand, or by telling each other."""
        from sfumato.secure.counting import pool_categories

        if schema is None:
            same = self.split == "rows"
            schema = pool_categories(
                session, self.categories, same_columns=same, max_values=self.max_values
            )
        return self.held(schema)

    def require_consent(self, schema: Schema | None, share_categories: bool) -> None:
        """Refuse to tell categories that nobody agreed to tell."""
        if (schema is None) == share_categories:
            return
        if schema is not None:
            raise ParameterError(
                "with a schema no categories are told",
                remedy=f"Leave {spell('share_categories', True)} out.",
            )
        told = ", ".join(f"`{name}` ({len(v):,})" for name, v in self.categories.items())
        raise ParameterError(
            f"without a schema the other side would be told, in clear, which categories occur in "
            f"{told}; nothing was sent",
            remedy=f"Agree on the categories and give them with {spell('schema', 'agreed.json')}, "
            f"or tell them with {spell('share_categories', True)}.",
        )

    def require(self, names: Sequence[str], schema: Schema | None) -> None:
        """Whatever can be wrong on this side alone, found before anybody is bothered."""
        known: Sequence[str] = tuple(self.categories)
        if schema is not None:
            self.held(schema)
            known = schema.columns
        elif self.split == "cells":
            return
        for name in names:
            if name not in known:
                raise ColumnError(f"there is no column `{name}`", remedy=did_you_mean(name, known))

    def require_complete(self, column: str) -> None:
        """Refuse empty cells in a column of whole rows."""
        if MISSING in self.categories.get(column, ()):
            empty = int((self._codes[column] == self.categories[column].index(MISSING)).sum())
            raise ColumnError(
                f"column `{column}` has {empty:,} empty cells",
                remedy="Remove those rows: what is to be predicted must be known.",
            )


def _text(value: Any) -> str:
    """A value as both sides write it: whole numbers alike, whatever their type."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        whole = value.to_integral_value()
        return str(int(whole)) if value == whole else f"{value:f}".rstrip("0")
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
