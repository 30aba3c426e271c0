"""What a name stands for: a file by its first bytes, a query over files, a table of a database.

A path, folder, pattern or ``-`` becomes a source by what its first bytes say it is. A file's name
breaks ties between kinds of text, and what is named after a kind of file must be it: neither a
damaged file nor one of another program is taken for text.
"""

from __future__ import annotations

import glob
import re
import sys
import weakref
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import pyarrow as pa

from sfumato.engines.foreign import FOREIGN, json_kind, read_foreign
from sfumato.engines.private_folder import PrivateFolder
from sfumato.engines.spool import allow, give_back, held_bytes
from sfumato.errors import ParameterError, SourceError
from sfumato.files import similar_names, unreadable
from sfumato.tables.columnar import ArrowFile, ArrowSource, ParquetSource
from sfumato.tables.dialect import checked_encoding, guessed_encoding
from sfumato.tables.source import StreamSource, TemporarySource, errors_without_cells, saved_stream
from sfumato.tables.text import TextFile
from sfumato.wording import shown

if TYPE_CHECKING:
    from sfumato.engines.protocol import Engine, Source
    from sfumato.tables.open import Opening


Kind = str
"""``text``, ``parquet``, ``arrow``, ``arrow stream``, or a kind of `FOREIGN`."""
Compression = Literal["gzip", "zstd", "bz2", "lz4"]

_ENDINGS = (
    ".csv", ".tsv", ".tab", ".txt", ".parquet", ".pq", ".arrow", ".feather", ".ipc",
    ".gz", ".zst", ".bz2", ".lz4", *(f".{end}" for one in FOREIGN.values() for end in one.endings),
)  # fmt: skip
_MAGIC: tuple[tuple[bytes, Kind], ...] = (
    (b"PAR1", "parquet"),
    (b"ARROW1", "arrow"),
    (b"\xff\xff\xff\xff", "arrow stream"),
    (b"PK\x03\x04", "excel"),
    (b"SQLite format 3", "sqlite"),
    (b"ORC", "orc"),
    (b"Obj\x01", "avro"),
    (b"$FL2", "spss"),
    (b"$FL3", "spss"),
    (b"<stata_dta>", "stata"),
    (b"HEADER RECORD*******LIB", "sas transport"),
    (bytes(12) + b"\xc2\xea\x81\x60", "sas"),
)
_PATTERNS: tuple[tuple[bytes, Kind], ...] = (
    (rb"[\x6c-\x73][\x01\x02]\x01\x00", "stata"),  # versions 8 to 12
    (rb"(?:\xef\xbb\xbf)?\s*(?:\{\s*[\"}]|\[\s*(?:\{|\]))", "json"),
)
_COMPRESSED: tuple[tuple[bytes, Compression], ...] = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bz2"),
    (b"\x04\x22\x4d\x18", "lz4"),
)
_PROMISED: dict[str, tuple[str, tuple[Kind, ...]]] = {
    **dict.fromkeys((".parquet", ".pq"), ("Parquet", ("parquet",))),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), ("Arrow", ("arrow", "arrow stream"))),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), ("JSON", ("json",))),
    **{
        f".{end}": (one.title, (kind,))
        for kind, one in FOREIGN.items()
        for end in one.endings
        if not kind.startswith("json") and end != "db"
    },
}
"""Endings that promise a kind of file."""
_EXPORT = "Export the table as CSV or Parquet."
_SAVE = "Save the table itself, as CSV."
_KNOWN_OTHERS: tuple[tuple[bytes, str, str], ...] = (
    (rb"\xd0\xcf\x11\xe0", "an old Excel workbook", "Save it as .xlsx."),
    (rb"%PDF", "a PDF document", _EXPORT),
    (rb"\x89HDF", "an HDF5 file", _EXPORT),
    (rb"RD[AX]\d", "an R data file", "Write it with write.csv or arrow::write_parquet."),
    (rb"X\n\x00\x00", "an R data file", "Write it with write.csv or arrow::write_parquet."),
    (rb".{8}DUCK", "a DuckDB database", "Write the table with COPY people TO 'people.parquet'."),
    (rb"\x80[\x02-\x05][\x8c\x95c}(\]]", "a Python pickle", "Write it with to_parquet."),
    (rb"\x93NUMPY", "a NumPy array", _EXPORT),
    (rb"MATLAB ", "a MATLAB file", _EXPORT),
    (rb"\x89PNG|\xff\xd8\xff|GIF8", "a picture", "Give a table."),
    (rb"7z\xbc\xaf|Rar!|PK\x05\x06", "an archive", "Unpack it first."),
    (rb"ASCII SPSS PORT", "an SPSS portable file", "Save it as .sav."),
    (rb"(?i)(?:\xef\xbb\xbf)?\s*<(?:!doctype html|html\b)", "an HTML page", _SAVE),
    (rb"(?:\xef\xbb\xbf)?\s*<(?:\?xml|!DOCTYPE)", "an XML document", _EXPORT),
    (rb"\{\\rtf", "a text document", _EXPORT),
)  # fmt: skip
_TAG = rb"[A-Za-z][\w:.-]*(?:\s[^<>]*)?/?>"
_DOCUMENT = rb"(?:\s*<[A-Za-z!]|[^,;|\t\r\n]*(?:[\r\n]|\Z))"
"""After a first tag: another one, or a line that no delimiter cuts. A column may be named <b>."""
_MARKUP: tuple[tuple[bytes, str, str], ...] = (
    (rb"(?i)(?:\xef\xbb\xbf)?\s*<(?=table\b|body\b)" + _TAG + _DOCUMENT, "an HTML page", _SAVE),
    (rb"(?:\xef\xbb\xbf)?\s*<" + _TAG + _DOCUMENT, "an XML document", _EXPORT),
)
"""What looks like a document; who names a delimiter says that it is a table."""
_CONTROL = re.compile(r"[\x01-\x08\x0e-\x1a\x1c-\x1f]")
_MOST_CONTROL = 0.02
"""Share of control characters from which on bytes are no text."""
_FEW_CONTROL = 8
"""So many may be in the text of a short file, whatever their share."""


@dataclass(frozen=True)
class FoundFiles:
    """The files a user named: one, or Parquet files that make one table."""

    paths: tuple[Path, ...]
    root: Path | None = None
    """The folder named, if it was a folder."""


def find_files(given: str) -> FoundFiles:
    """The files that a path, a folder or a glob stands for."""
    if not given:
        raise SourceError("the name of the table is empty", remedy="Name a file; . is this folder.")
    path = Path(given).expanduser()
    try:
        if path.is_dir():
            return FoundFiles(_parquet_below(path, given), path)
        if path.exists():
            if not path.is_file() and not path.is_fifo():
                raise SourceError(
                    "this is not a regular file", where=given, remedy="Name a file, folder or pipe."
                )
            return FoundFiles((path,))
    except OSError as error:
        raise SourceError(
            f"cannot be opened: {error.strerror}", where=given[:200], remedy="Check its name."
        ) from error
    if glob.has_magic(given):
        matches = sorted(Path(p) for p in glob.glob(str(path), recursive=True) if Path(p).is_file())
        if matches:
            return FoundFiles(tuple(matches))
        raise SourceError(
            "no file matches this pattern",
            where=given,
            remedy="Try it with `ls`, and keep it in quotes.",
        )
    raise _missing(path, given)


def kind_of(
    first: bytes, where: str, delimiter: str | None = None, encoding: str | None = None
) -> tuple[Kind, Compression | None]:
    """What kind of table a file's first bytes announce, and how it is compressed.

    `delimiter` and `encoding` are those that were named, if any.
    """
    for magic, compression in _COMPRESSED:
        if first.startswith(magic):
            return "text", compression
    for magic, kind in _MAGIC:
        if first.startswith(magic):
            return kind, None
    for pattern, kind in _PATTERNS:
        if re.match(pattern, first):
            return kind, None
    for pattern, what, remedy in (*_KNOWN_OTHERS, *(() if delimiter else _MARKUP)):
        if re.match(pattern, first, re.DOTALL):
            raise SourceError(f"this is {what}, not a table", where=where, remedy=remedy)
    read = checked_encoding(encoding) if encoding else guessed_encoding(first, complete=False)
    wide = read.startswith(("utf-16", "utf-32"))  # a half of their letters may be below a blank
    text = first.decode(read if wide else "latin-1", "replace")
    if len(_CONTROL.findall(text)) > max(_FEW_CONTROL, _MOST_CONTROL * len(text)):
        raise SourceError(
            "this is binary data of an unknown kind, not a table", where=where, remedy=_EXPORT
        )
    return "text", None


def refuse_misnamed(name: str, kind: Kind, compression: Compression | None) -> None:
    """Refuse a file that is not what the ending of its name says.

    Examples
    --------
    >>> refuse_misnamed("people.parquet", "parquet", None)
    >>> refuse_misnamed("people.parquet", "text", None)
    Traceback (most recent call last):
    sfumato.errors.SourceError: people.parquet: the name says Parquet, but the content begins...
    """
    named, kinds = _PROMISED.get(Path(name).suffix.lower(), ("", ()))
    if not named or (kind in kinds and compression is None):
        return
    told = f"{compression} compression" if compression else kind
    raise SourceError(
        f"the name says {named}, but the content begins like {told}",
        where=name,
        remedy="Export it again if it is damaged, or rename it after what it is, e.g. to .csv.",
    )


def _parquet_below(folder: Path, given: str) -> tuple[Path, ...]:
    """Parquet files in a folder and its subfolders; hidden ones and markers are not data."""
    found = []
    for path in sorted(folder.rglob("*")):
        inner = path.relative_to(folder).parts
        hidden = any(part.startswith((".", "_")) for part in inner)
        if not hidden and path.suffix in (".parquet", ".pq") and path.is_file():
            found.append(path)
    if not found:
        raise SourceError(
            "this folder holds no Parquet files",
            where=given,
            remedy="Name a file in it, or a pattern such as 'folder/*.parquet'.",
        )
    return tuple(found)


def _missing(path: Path, given: str) -> SourceError:
    if path.is_symlink():
        return SourceError(
            "this is a link that leads nowhere", where=given, remedy="Name the file itself."
        )
    return SourceError(
        "there is no such file",
        where=given,
        remedy=similar_names(path, _may_be_meant),
    )


def _may_be_meant(beside: Path) -> bool:
    """Whether a file is called like a table, and is none that Sfumato wrote about one."""
    if beside.name.endswith(".certificate.json"):
        return False
    noted = beside.suffix == ".json" and beside.parent.name.endswith(".sfumato")
    return beside.suffix.lower() in _ENDINGS and not noted


_BEGINNING = 512


def open_path(given: str, opening: Opening) -> Source:
    """The source that a path, folder or pattern stands for."""
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+)://", given)
    if scheme is not None:
        raise SourceError(
            f"{scheme[1]}:// addresses cannot be opened",
            remedy="Databases are opened by postgresql://…#table; download files first.",
        )
    whole, part = given, None
    if "#" in given and not Path(given).exists():
        given, _, part = given.rpartition("#")
    found = find_files(given)
    first = found.paths[0]
    if part is not None and len(found.paths) == 1 and first.is_file():
        return _open_file(first, whole, opening, part)
    if len(found.paths) == 1 and found.root is None:
        if not first.is_file():  # a pipe can be read only once
            with first.open("rb") as pipe:
                return _open_stream(pipe, given, opening)
        return _open_file(first, given, opening)
    kind, compression = kind_of(_beginning(first, given), given)
    refuse_misnamed(str(first), kind, compression)
    if kind != "parquet":
        raise SourceError(
            f"{len(found.paths)} files match, and only Parquet files are read together",
            where=given,
            remedy="Name one file, or convert them to Parquet.",
        )
    opening.refuse_text_options(given, "Parquet")
    return ParquetSource(found.paths, given, opening.columns, opening.exclude, found.root)


def piped_in() -> BinaryIO:
    """Standard input, if something is piped in."""
    if sys.stdin is None or sys.stdin.isatty():
        raise SourceError(
            "nothing is piped in",
            where="standard input",
            remedy="Pipe a table in, e.g. `cat people.csv | sfumato scan -`.",
        )
    return sys.stdin.buffer


def open_standard_input(opening: Opening) -> Source:
    """The table that is piped in, kept in a private temporary file."""
    return _open_stream(piped_in(), "standard input", opening)


def _open_stream(stream: BinaryIO, name: str, opening: Opening) -> Source:
    """Keep a stream in a private file and open that."""
    folder = PrivateFolder()
    try:
        return TemporarySource(
            _open_file(saved_stream(stream, folder, name), name, opening), folder
        )
    except BaseException:
        folder.close()
        raise


def _open_file(path: Path, name: str, opening: Opening, part: str | None = None) -> Source:
    """One file, by what its first bytes say it is; `part` is a sheet or a table in it."""
    first = _beginning(path, name)
    kind, compression = kind_of(first, name, opening.delimiter, opening.encoding)
    if kind == "text" and _is_json(name, first):
        kind = "json"
    refuse_misnamed(name if part is None else name.removesuffix(f"#{part}"), kind, compression)
    if kind in FOREIGN:
        opening.refuse_text_options(name, FOREIGN[kind].title)
        kind = json_kind(path) if kind == "json" else kind
        rows = read_foreign(kind, path, part, name, opening.memory)
        if rows.nbytes <= held_bytes(opening.memory, rows.nbytes):
            return ArrowSource(rows, name, opening.columns, opening.exclude, path)
        held = [rows]
        source = StreamSource(
            rows.schema, lambda: held.pop().to_batches(), name, opening.columns, opening.exclude
        )
        del rows  # what is left of them is the copy
        source.paths, source.memory = (path,), opening.memory
        source.copy()
        give_back()
        return source
    if part is not None:
        raise SourceError(
            "a file of this kind has no parts to choose with #",
            where=name,
            remedy="Leave out # and what follows.",
        )
    if compression is not None and _inner_kind(path, name, compression, opening) != "text":
        with pa.input_stream(str(path), compression=compression) as unpacked:
            return _open_stream(unpacked, name, opening)
    if kind != "text":
        opening.refuse_text_options(name, f"a file of {kind.split()[0].capitalize()}")
    if kind == "parquet":
        return ParquetSource([path], name, opening.columns, opening.exclude)
    if kind == "text":
        return TextFile(
            path,
            name,
            compression,
            columns=opening.columns,
            exclude=opening.exclude,
            delimiter=opening.delimiter,
            encoding=opening.encoding,
            null_values=opening.null_values,
            header=opening.header,
            as_text=opening.parse,
            memory=opening.memory,
        )
    return ArrowFile(
        path,
        name,
        stream=kind == "arrow stream",
        columns=opening.columns,
        exclude=opening.exclude,
    )


def _is_json(name: str, first: bytes) -> bool:
    """Whether a file is named JSON and begins like some: a list of lists, or in UTF-16."""
    named = Path(name).suffix.lower() in (".json", ".jsonl", ".ndjson")
    return named and first.lstrip(b"\xef\xbb\xbf\xff\xfe\x00 \t\r\n")[:1] in (b"[", b"{", b'"')


def _beginning(path: Path, name: str) -> bytes:
    """The first bytes of a file that must hold some."""
    try:
        with path.open("rb") as file:
            first = file.read(_BEGINNING)
    except OSError as error:
        reason, remedy = unreadable(path, error)
        raise SourceError(f"cannot be read: {reason}", where=name, remedy=remedy) from None
    if not first:
        raise SourceError("the file is empty", where=name, remedy="Export it again.")
    return first


def _inner_kind(path: Path, name: str, compression: str, opening: Opening) -> str:
    """What a compressed file holds; a damaged one is left to whoever reads it as text."""
    try:
        with pa.input_stream(str(path), compression=compression) as unpacked:
            first = unpacked.read(_BEGINNING)
            kind, _ = kind_of(first, name, opening.delimiter, opening.encoding)
    except OSError:
        return "text"
    return kind


_PREFIX = "sql:"


def is_query(given: str) -> bool:
    """Whether a source is a SQL query and not a path.

    Examples
    --------
    >>> is_query("SELECT age FROM 'people.parquet'"), is_query("select.csv")
    (True, False)
    """
    return given.startswith(_PREFIX) or bool(
        re.match(r"\s*(select|with|from|values)\s", given, re.IGNORECASE)
    )


def open_query(query: str, opening: Opening) -> StreamSource:
    """What a query over files gives, as DuckDB answers it; only files that it names are opened."""
    import duckdb

    from sfumato.engines.duckdb import connect, lock_down

    text = query.removeprefix(_PREFIX)
    folder = PrivateFolder()
    memory = opening.memory
    connection = connect(folder, **({"memory_limit": f"{memory}B"} if memory else {}))
    try:
        allow(connection, _named_files(text))
        lock_down(connection)
        connection.execute("SET lock_configuration = true")
        statements = connection.extract_statements(text)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise SourceError(
                "a query must be one SELECT statement", remedy="It may use WITH and files by name."
            )
        relation = connection.sql(statements[0])
    except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException) as error:
        # These speak about the query's own words, never about rows.
        raise SourceError(
            f"the query is not understood: {error}",
            remedy="Name files in quotes, e.g. SELECT age, sex FROM 'people.parquet'.",
        ) from None
    except duckdb.Error as error:
        raise SourceError(
            f"the query cannot be run: {type(error).__name__}",
            remedy="Check that its files exist and are tables; nothing but files of this machine, "
            "named in quotes, can be read.",
        ) from None
    source = open_relation(relation, "the query", opening)
    weakref.finalize(source, folder.close)
    return source


def _named_files(query: str) -> list[str]:
    """The files that a query names in quotes, and the patterns of files.

    Everything in quotes counts: what is no file of this machine cannot be opened anyway.
    """
    import duckdb

    kinds = (duckdb.token_type.string_const, duckdb.token_type.identifier)
    tokens = [*duckdb.tokenize(query), (len(query.encode()), None)]
    found: list[str] = []
    for (start, kind), (end, _) in pairwise(tokens):
        written = query.encode()[start:end].decode(errors="replace").strip()
        if kind in kinds and written[:1] in ("'", '"'):
            name = written[1:-1].replace(written[0] * 2, written[0])
            if "://" not in name:
                found += [name, *glob.glob(name, recursive=True)]
    return found


def open_relation(relation: Any, name: str, opening: Opening) -> StreamSource:
    """A DuckDB relation; it is run once, when its rows are first needed."""
    with errors_without_cells(name):
        schema = relation.limit(0).to_arrow_table().schema
    return StreamSource(schema, relation.to_arrow_reader, name, opening.columns, opening.exclude)


def is_postgres(given: str) -> bool:
    """Whether a source is the address of a PostgreSQL database."""
    return given.startswith(("postgresql://", "postgres://"))


def open_postgres(given: str, query: str | None = None) -> Engine:
    """A table ``postgresql://…#schema.table``, or a query, on a PostgreSQL server."""
    url, _, fragment = given.partition("#")
    if query is not None and fragment:
        raise ParameterError(
            "both a table and a query were given", remedy="Leave out the part after #."
        )
    if fragment and is_query(fragment):
        query, fragment = fragment.removeprefix(_PREFIX), ""
    if "@" in fragment:
        raise SourceError(
            "a # ends the address of a database, and what follows is not a table",
            where=shown(given),
            remedy="Write # in a password as %23; tables with strange names go into a query.",
        )
    if query is None and not fragment:
        raise SourceError(
            "the address names a database but no table in it",
            where=shown(given),
            remedy="Append #schema.table, or # and a SELECT.",
        )
    from sfumato.engines.postgres import Postgres
    from sfumato.engines.sql_engine import SQLEngine

    return SQLEngine(Postgres(url, table=fragment or None, query=query))
