"""The reference, read from the code: verbs and their options, Python names, results, settings.

Nothing here knows an option or a field by name. The command line is walked as typer built it,
results and settings are read from their dataclasses, and a certificate is shown as a real release
leaves it. `python docs/generate/reference.py FOLDER` writes the pages; mkdocs asks for them
through `hooks.py`.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import importlib
import inspect
import json
import os
import pkgutil
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import sfumato
from sfumato.anonymization.request import RequestFields
from sfumato.cli import VERBS, load
from sfumato.fields import parameters
from sfumato.files import INPUT_KEY
from sfumato.release.certificate import FIELDS
from sfumato.release.promise import _HOMES, promise_class
from sfumato.results import Result

ROOT = Path(__file__).resolve().parents[2]
INSIDE = {"cli", "engines", "fields", "kernels", "keyfiles", "report", "web", "wording"}
"""Packages and modules that nobody outside is meant to import from."""


@functools.cache
def public_modules() -> dict[str, str]:
    """Modules below `sfumato` with public names of their own, by the name of their page."""
    found = {}
    for info in pkgutil.iter_modules(sfumato.__path__):
        if info.name not in INSIDE and not info.name.startswith("_"):
            module = importlib.import_module(f"sfumato.{info.name}")
            if getattr(module, "__all__", ()):
                found[f"reference/python-{info.name}.md"] = module.__name__
    return found


def pages() -> dict[str, str]:
    """Every generated page: its path below ``docs`` and its Markdown."""
    made = {
        "reference/command-line.md": command_line(),
        "reference/python.md": python_verbs(),
        "reference/results.md": results(),
        "reference/settings.md": settings(),
        "reference/certificate.md": certificate(),
        "changelog.md": _from_root("CHANGELOG.md"),
        "contributing.md": _from_root("CONTRIBUTING.md"),
        "benchmarks.md": _from_root("benchmarks/RESULTS.md"),
    }
    return made | {page: python_module(name) for page, name in public_modules().items()}


def options_of(verb: str) -> str:
    """The options of one verb, as a section to stand at the end of its page."""
    found = next((known for known in VERBS if known.name == verb), None)
    if found is None:
        return ""
    command = load(found)
    lines = ["", "## All options", "", "Read from the program: the same as `--help`.", ""]
    if hasattr(command, "commands"):
        for name, below in sorted(command.commands.items()):
            lines += [f"### {verb} {name}", "", _summary(below), "", *_options(below)]
    else:
        lines += _options(command)
    return "\n".join(lines) + "\n"


# The command line


def command_line() -> str:
    """All verbs with what they answer, and what they share."""
    lines = ["# Command line", "", "Every verb, as `sfumato --help` lists them.", ""]
    for panel in dict.fromkeys(verb.panel for verb in VERBS):
        lines += [f"## {panel}", "", "| verb | |", "|---|---|"]
        lines += [
            f"| [`sfumato {verb.name}`](../verbs/{verb.name}.md#all-options) | {verb.summary} |"
            for verb in VERBS
            if verb.panel == panel
        ]
        lines.append("")
    return "\n".join(lines)


def _summary(command: Any) -> str:
    return _tidy((command.help or "").split("\f")[0])


def _options(command: Any) -> list[str]:
    """One table for each group of options, arguments first."""
    groups: dict[str, list[str]] = {}
    for parameter in command.params:
        if getattr(parameter, "hidden", False) or parameter.name == "help":
            continue
        default_panel = "Arguments" if parameter.param_type_name == "argument" else "Options"
        panel = getattr(parameter, "rich_help_panel", None) or default_panel
        groups.setdefault(panel, []).append(_row(parameter))
    lines: list[str] = []
    for panel in sorted(groups, key=lambda name: name != "Arguments"):
        lines += [f"**{panel}**", "", "| option | value | meaning |", "|---|---|---|"]
        lines += [*groups[panel], ""]
    return lines


def _row(parameter: Any) -> str:
    is_flag = getattr(parameter, "is_flag", False)
    metavar = parameter.metavar or parameter.name.upper()
    if parameter.param_type_name == "argument":
        names, value = f"`{metavar}`", "required" if parameter.required else ""
    else:
        shown = [*parameter.opts, *parameter.secondary_opts]
        names = ", ".join(f"`{name}`" for name in sorted(shown, key=len))
        value = "" if is_flag else f"`{metavar}`"
        default = parameter.default
        if not is_flag and isinstance(default, (int, float, str)) and default != "":
            value += f" (default `{default}`)"
    return f"| {_cell(names)} | {_cell(value)} | {_cell(_tidy(parameter.help or ''))} |"


# Python


def python_verbs() -> str:
    """The names of `sfumato` itself."""
    lines = ["# Python: the verbs", "", "`import sfumato as sf` loads nothing heavy; each name is"]
    lines += [
        "loaded when it is first used. Results are described on [their page](results.md).",
        "",
    ]
    for name in sfumato.__all__:
        thing = getattr(sfumato, name)
        if inspect.ismodule(thing):
            lines += [f"## sf.{name}", "", inspect.getdoc(thing) or "", ""]
        elif hasattr(thing, "__qualname__"):
            lines += _directive(thing, f"sf.{name}", f"sfumato.{name}")
    return "\n".join(lines)


def python_module(name: str) -> str:
    """The public names of one module."""
    module = importlib.import_module(name)
    about = re.sub(r":{2}\n\n(?=    )", "\n", inspect.getdoc(module) or "")
    lines = [f"# Python: `{name}`", "", about, ""]
    elsewhere = {place(getattr(sfumato, verb)) for verb in sfumato.__all__}
    seen: set[str] = set()
    for public in module.__all__:
        thing = getattr(module, public)
        where = place(thing)
        if where in elsewhere:
            lines += [f"`{public}` is described among [the verbs](python.md).", ""]
        elif where.startswith("sfumato.") and where not in seen and not inspect.ismodule(thing):
            lines += _directive(thing, public, f"{name}.{public}")
        seen.add(where)
    return "\n".join(lines)


def place(thing: Any) -> str:
    """Where a class or function is defined."""
    return f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', '')}"


def _directive(thing: Any, title: str, typed: str) -> list[str]:
    """What describes a name, which is found by what a user types and by where it is defined."""
    return [
        *([] if typed == place(thing) else [f'<a id="{typed}"></a>', ""]),
        f"::: {thing.__module__}.{thing.__qualname__}",
        "    options:",
        f'      heading: "{title}"',
        f'      toc_label: "{title}"',
        "",
    ]


# Results


def results() -> str:
    """What verbs return in Python and print with ``--json``, field by field."""
    known = {kind.__name__: kind for kind in _classes(Result)}
    lines = [
        "# Results and JSON",
        "",
        "Every verb returns a frozen record. `--json` prints the same fields under the same names",
        "as one JSON object; tuples become lists, not-a-number becomes null. Marked *Python*",
        "are handles and arrays that JSON leaves out. `result.to_dict()` and `result.to_json()`",
        "give the same from Python, `result.report(path)` a page to look at.",
        "",
        "## What stays at home",
        "",
        "On a figure of a table guesses about single cells can be tried out: whoever has a release",
        "and, say, the exact loss that it cost puts candidates into the hidden cells until the",
        "loss agrees. So `--json` ends with `stays_at_home` (`result.answer()` in Python), the",
        "names of the fields that are not for whoever gets the release. That is every field of",
        "every verb, also what only some methods say, but for these:",
        "",
        "| result | field | why it may be passed on |",
        "|---|---|---|",
        *_leaving(known.values()),
        "",
        "A test tries inputs that lead to the same release, and finds every field that tells them",
        "apart in `stays_at_home`. Verifying a table without a certificate is looking at a table;",
        "where a release is compared with other tables (its input, a population, other releases),",
        "`findings` stays at home. So do `k` and `classes` of a release of persons whom it does",
        "not name, or of k-map. Pages say at their top whether they stay at home.",
        "",
    ]
    first = [name for name in dict.fromkeys(_returned()) if name in known]
    for name in [*first, *sorted(set(known) - set(first))]:
        lines += _record(known[name])
    return "\n".join(lines)


def _leaving(kinds: Iterable[type[Result]]) -> Iterator[str]:
    """Lines of the table of fields that may leave the house."""
    for kind in kinds:
        for name, reason in kind.passed_on.items():
            yield f"| {kind.__name__} | `{name}` | {_cell(reason)} |"


def _returned() -> Iterator[str]:
    """Names of the classes that the verbs return, in the order of the verbs."""
    for name in sfumato.__all__:
        thing = getattr(sfumato, name)
        if inspect.isfunction(thing):
            yield str(inspect.signature(thing).return_annotation).split("|")[0].strip()


def _record(kind: type) -> list[str]:
    about = (inspect.getdoc(kind) or "").split("\n\n")
    text = "\n\n".join(part for part in about if not _is_section(part))
    lines = [f"## {kind.__name__}", "", f"`{kind.__module__}`. {_tidy(text)}", ""]
    helps = _helps(kind)
    has_helps = any(field.name in helps for field in dataclasses.fields(kind))
    lines += ["| field | type |" + " meaning |" * has_helps, "|---|---|" + "---|" * has_helps]
    for field in dataclasses.fields(kind):
        mark = " *Python*" if field.metadata.get("private") else ""
        row = f"| `{field.name}`{mark} | `{_cell(str(field.type))}` |"
        lines.append(row + f" {_cell(helps.get(field.name, ''))} |" * has_helps)
    return [*lines, ""]


def _is_section(text: str) -> bool:
    """Whether a part of a docstring is a titled section of numpydoc."""
    return bool(re.match(r"\w[\w ]*\n-{3,}", text)) or text.startswith(">>>")


def _helps(kind: type) -> dict[str, str]:
    """What is said of each field: in its metadata, below it, or in a section of the docstring."""
    found = _numpydoc(inspect.getdoc(kind) or "")
    tree = ast.parse(Path(inspect.getfile(kind)).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
            for above, below in zip(node.body, node.body[1:], strict=False):
                said = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
                if said and isinstance(above, ast.AnnAssign) and isinstance(above.target, ast.Name):
                    found[above.target.id] = str(below.value.value)
    for field in dataclasses.fields(kind):
        for name in ("help", "says", "doc"):
            if isinstance(field.metadata.get(name), str):
                found[field.name] = field.metadata[name]
    return {name: _tidy(text) for name, text in found.items()}


def _numpydoc(text: str) -> dict[str, str]:
    """The entries of the sections Parameters and Attributes."""
    found: dict[str, str] = {}
    for section in re.findall(
        r"(?:Parameters|Attributes)\n-+\n(.*?)(?=\n\n\w+\n-+|\Z)", text, re.S
    ):
        for names, said in re.findall(r"^(\S.*)\n((?:[ ]{4}.*\n?|\n)+)", section + "\n", re.M):
            for name in names.split(":")[0].split(","):
                found[name.strip().lstrip("*")] = inspect.cleandoc(said)
    return found


# Settings of a release


def settings() -> str:
    """The settings of `anonymize`: in Python, on the command line and in TOML the same names."""
    lines = [
        "# Settings of anonymize",
        "",
        "The same names in Python (`sf.anonymize(table, k=5)`) and in",
        "[anonymize.toml](../anonymize-toml.md) (`k = 5`); the option of the command line beside.",
        "",
    ]
    declared, known = parameters(RequestFields), _methods()
    for group in dict.fromkeys(each.field.group for each in declared.values()):
        lines += [
            f"## {group}",
            "",
            "| setting | option | default | meaning |",
            "|---|---|---|---|",
        ]
        for name, each in declared.items():
            if each.field.group == group:
                option = f"`{each.field.flag or '--option ' + name + '=…'}`"
                if each.field.flag is None and not any(name in m.options for m in known.values()):
                    option = "in a file or in Python"
                default = "" if each.default in (None, (), {}) else f"`{each.default!r}`"
                about = _cell(_tidy(each.field.help))
                lines.append(f"| `{name}` | {option} | {default} | {about} |")
        lines.append("")
    lines += ["## Methods and their options", "", "| method | | options |", "|---|---|---|"]
    for name, method in known.items():
        taken = ", ".join(f"`{option}`" for option in getattr(method, "options", ()))
        lines.append(f"| `{name}` | {_cell(_tidy(getattr(method, 'says', '')))} | {taken} |")
    return "\n".join([*lines, ""])


def _methods() -> Mapping[str, Any]:
    for module in _modules():
        found = getattr(module, "METHODS", None)
        if isinstance(found, Mapping):
            return found
    raise LookupError("no module lists METHODS")


# The certificate

_MEANINGS = {
    "certificate": "version of this form",
    "sfumato": "version of the program that made it",
    "date": "the day it was made, in UTC",
    "author": "whoever was named with `--author`",
    "method": "how the release was made",
    "asked": "what was demanded; `anonymize --config` reads it to repeat the release",
    "input": "the source table",
    "output": "the released table",
    "column_actions": "what happened to each column: kept, recoded or left out",
    "stopped_by": "`time` or `memory` where a limit ended the search, else null",
    "rows": "released rows",
    "qi": "the sets of columns that others may know",
    "k": "rows in the smallest class of the release",
    "classes": "classes in the release, by the first set of quasi-identifiers",
    "suppressed_rows": "rows left out",
    "suppressed_cells": "cells of quasi-identifiers that show `*` and did not before",
    "promises": "what the release promises, as `verify` measures it again",
}


def certificate() -> str:
    """A real certificate, and what each of its fields means."""
    body = _example_certificate()
    lines = [
        "# The certificate",
        "",
        "Beside every release lies `OUT.certificate.json`. `sfumato verify OUT` reads it, compares",
        "the digest of the release and measures every promise again. It names the day (that of",
        "SOURCE_DATE_EPOCH where it is set), the version, and an author where one was given.",
        "",
        "## What it tells, and why that gives nothing away",
        "",
        "A certificate goes wherever the release goes, so nothing in it may help to find out",
        "what was hidden. A plain digest of the input would: whoever has the release puts",
        "candidates into the hidden cells and compares digests until one agrees. The same goes",
        "for every figure of the input that is fine enough, such as a loss with sixteen digits.",
        "So each field is a choice of the maker, or a function of the released table, which",
        "anybody can compute, or made with a key that stays at home. Inputs that lead to the",
        "same release lead to the same certificate, but for one keyed digest; a test tries them",
        "on every field.",
        "",
        "| field | meaning | why it is harmless |",
        "|---|---|---|",
        *(f"| `{name}` | {_MEANINGS[name]} | {reason} |" for name, reason in FIELDS.items()),
        "| `digest` | SHA-256 of everything above, in canonical JSON | anybody can compute it; it "
        "finds accidents and proves nothing |",
        "| `signed` | who signed everything above, and the signature (Ed25519), if somebody did | "
        "it is computed from the certificate |",
        "",
        "Left out on purpose: utility, bounds, risks before, warnings and whatever else a method",
        "says about the input (`--json` prints them for you, and lists them in `stays_at_home`);",
        "the seed, which would let a reader do the work again on guesses; key files; tables of",
        "recodings; the trees and people of k-map and what was measured on them.",
        "",
        "**Not promised.** A method is a function of its input. Whoever knows it, and all but a",
        "few hidden cells, can run it on guesses and compare the outcome with the release",
        "itself (Wong et al. 2007 call this the minimality attack). That is a property of the",
        "release, with or without a certificate. Two releases of one table carry the same",
        "digest of it under one key: readers see that they belong together.",
        "",
        "## Promises",
        "",
        "Each of `promises` has a `kind`, the parameters below, and in `measured` what was found",
        "when the release was read back: figures of the released table under the names that",
        "`sfumato verify OUT --json` gives them.",
        "",
        *(line for kind in _HOMES for line in _promise(kind)),
        "## The input key",
        "",
        "`input.fingerprint` is a digest (BLAKE2b) under the *input key*: 32 random bytes, made",
        "when you first write a release, in `~/.config/sfumato/input.key` (below",
        "`$XDG_CONFIG_HOME` if that is set; `SFUMATO_INPUT_KEY` names another file, e.g. one",
        "for a project). Only you can read it, links are not followed, and where no key can be",
        "kept the digest is left out. `sfumato verify OUT --of TABLE` tells whoever has the key",
        "whether OUT was made of TABLE. Losing it costs no more than that.",
        "",
        "## An example",
        "",
        'The certificate of four made-up people, `qi=["age", "sex"]` and `k=2`:',
        "",
        "```json",
        json.dumps(body, ensure_ascii=False, indent=2),
        "```",
        "",
    ]
    return "\n".join(lines)


def _promise(kind: str) -> list[str]:
    """What a kind of promise says, and its parameters in a certificate."""
    made = promise_class(kind)
    about = _tidy((inspect.getdoc(made) or "").split("\n\n")[0])
    helps = _helps(made)
    return [
        f"### {kind}",
        "",
        about,
        "",
        "| parameter | type | meaning |",
        "|---|---|---|",
        *(
            f"| `{field.name}` | `{_cell(str(field.type))}` | {_cell(helps.get(field.name, ''))} |"
            for field in dataclasses.fields(made)
            if field.init and field.repr and field.name not in ("hierarchies", "people")
        ),
        "",
    ]


def _example_certificate() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "people.csv")
        table.write_text("age,sex,illness\n21,F,flu\n22,F,cold\n35,M,flu\n36,M,gout\n")
        with _own_input_key(Path(folder, "input.key")):
            sfumato.anonymize(table, qi=["age", "sex"], k=2, output=Path(folder, "release.csv"))
        text = Path(folder, "release.csv.certificate.json").read_text(encoding="utf-8")
        text = re.sub(r"blake2b:[0-9a-f:]+", "blake2b:…", text)  # another one with every key
        found: dict[str, Any] = json.loads(text.replace(folder + "/", ""))
        return found


@contextlib.contextmanager
def _own_input_key(place: Path) -> Iterator[None]:
    """Leave the key of whoever builds the site alone."""
    before = os.environ.get(INPUT_KEY)
    os.environ[INPUT_KEY] = str(place)
    try:
        yield
    finally:
        del os.environ[INPUT_KEY]
        if before is not None:
            os.environ[INPUT_KEY] = before


# Helpers


@functools.cache
def _modules() -> tuple[Any, ...]:
    """All modules of the package that can be imported here."""
    found = []
    for info in pkgutil.walk_packages(sfumato.__path__, "sfumato."):
        if info.name.endswith("__main__"):
            continue
        try:
            found.append(importlib.import_module(info.name))
        except ImportError:  # an extra that is not installed
            continue
    return tuple(found)


def _classes(base: type) -> Iterator[type]:
    """All dataclasses of the package below a class, in the order of their names."""
    _modules()  # subclasses are known once their modules are loaded
    seen: set[type] = set()
    waiting = [base]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            if kind not in seen and kind.__module__.startswith("sfumato."):
                seen.add(kind)
                waiting.append(kind)
    yield from (kind for kind in sorted(seen, key=lambda k: k.__name__) if _is_public(kind))


def _is_public(kind: type) -> bool:
    return dataclasses.is_dataclass(kind) and not kind.__name__.startswith("_")


def _from_root(name: str) -> str:
    """A page that lies beside ``docs``, with its links as seen from within."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return text.replace("](docs/", "](")


def _tidy(text: str) -> str:
    """One paragraph of Markdown from a docstring or a help text with markup of its own."""
    text = re.sub(r"\[/?(?:bold|dim|italic)\]", "", inspect.cleandoc(text))
    text = re.sub(r"``(.+?)``", r"`\1`", text)
    return re.sub(r"\s+", " ", text).strip()


def _cell(text: str) -> str:
    """Text for a cell of a Markdown table: no bar ends it, no bracket outside code opens a tag."""
    parts = text.replace("|", r"\|").split("`")
    return "`".join(p if n % 2 else p.replace("<", "&lt;") for n, p in enumerate(parts))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for path, text in pages().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
