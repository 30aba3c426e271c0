"""Every page has a place in the navigation, and every link and anchor leads somewhere."""

from __future__ import annotations

import importlib
import re
import sys
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from sfumato.release.certificate import FIELDS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
WRITTEN = sorted(DOCS.rglob("*.md"))
BESIDE = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]

sys.path.insert(0, str(DOCS / "generate"))
import reference  # noqa: E402 (a script of the documentation, no package)


@cache
def generated() -> dict[Path, str]:
    """The pages that are read from the code, where they will be."""
    return {DOCS / path: text for path, text in reference.pages().items()}


def prose(text: str) -> str:
    """A page without its blocks of code, its inline code and its comments."""
    text = re.sub(r"^(```+).*?^\1\s*$", "", text, flags=re.M | re.S)
    return re.sub(r"<!--.*?-->|`[^`\n]*`", "", text, flags=re.S)


def text_of(page: Path) -> str:
    """A page as the site shows it: verbs end with their options."""
    if page in generated():
        return generated()[page]
    text = page.read_text(encoding="utf-8")
    return text + (reference.options_of(page.stem) if page.parent.name == "verbs" else "")


@cache
def anchors(page: Path) -> set[str]:
    """The anchors that headings of a page get."""
    body = re.sub(r"^(```+).*?^\1\s*$", "", text_of(page), flags=re.M | re.S)
    found: set[str] = set()
    for title in re.findall(r"^#{1,6} +(.+?)\s*$", body, flags=re.M):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)|`", r"\1", title)
        plain = unicodedata.normalize("NFKD", plain)  # as the site does: ² becomes 2
        kept = re.sub(r"[^\w\s-]", "", plain.encode("ascii", "ignore").decode()).strip().lower()
        found.add(re.sub(r"[-\s]+", "-", kept))
    return found | set(re.findall(r'id="([^"]+)"', body))


def links(page: Path) -> Iterator[str]:
    """Where the links and pictures of a page lead, as they are written."""
    text = prose(text_of(page))
    yield from re.findall(r"\]\(([^)\s]+)\)", text)
    yield from re.findall(r'(?:href|src)="([^"]+)"', text)


def test_no_two_brackets_are_taken_for_a_reference() -> None:
    """The site reads ``[1] [name](…)`` as a reference called name."""
    found = {p.name: re.findall(r"(?<!\\)\] \[[^]]+\]\(", prose(text_of(p))) for p in WRITTEN}
    assert not {name: seen for name, seen in found.items() if seen}


@pytest.mark.parametrize("page", WRITTEN + BESIDE, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    lost = [link for link in links(page) if not leads_somewhere(page, link)]
    assert not lost


def test_links_of_generated_pages_lead_somewhere() -> None:
    lost = [(page.name, link) for page in generated() for link in links(page)
            if not leads_somewhere(page, link)]  # fmt: skip
    assert not lost


def leads_somewhere(page: Path, link: str) -> bool:
    if re.match(r"(https?|mailto):", link):
        return True
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if target not in generated() and not target.exists():
        return False
    if DOCS in page.parents and DOCS not in target.parents:
        return False  # the site holds nothing from outside of docs
    return not anchor or (target.suffix == ".md" and anchor in anchors(target))


def in_navigation() -> list[str]:
    """The pages that mkdocs.yml names, in its order."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    return re.findall(r"^ .*?([\w/-]+\.md)$", text.partition("\nnav:")[2], flags=re.M)


def test_every_page_is_in_the_navigation_once() -> None:
    named = in_navigation()
    pages = {page.relative_to(DOCS).as_posix() for page in [*WRITTEN, *generated()]}
    pages -= set(reference.public_modules())  # listed by the hook
    assert sorted(set(named)) == sorted(named)
    assert pages - set(named) == set(), "these pages are orphans"
    assert set(named) <= pages


def test_contents_link_to_every_page() -> None:
    seen, waiting = {DOCS / "README.md"}, [DOCS / "README.md"]
    while waiting:
        page = waiting.pop()
        if page.name != "README.md":  # other pages may link where they like
            continue
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([\w./-]+\.md)", text):
            linked = (page.parent / target).resolve()
            if linked not in seen:
                seen.add(linked)
                waiting.append(linked)
    assert set(WRITTEN) - seen == set()


def test_every_verb_has_a_page_and_every_option_is_explained() -> None:
    for verb in reference.VERBS:
        assert (DOCS / "verbs" / f"{verb.name}.md").exists()
        rows = re.findall(r"^\| (.*) \| (.*) \| (.*) \|$", reference.options_of(verb.name), re.M)
        assert [names for names, _, meaning in rows if not meaning.strip()] == []


def _resolves(name: str) -> bool:
    """Whether a dotted name leads to a module, or to something in one."""
    parts = name.split(".")
    for size in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:size]))
        except ModuleNotFoundError:
            continue
        for part in parts[size:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def test_the_architecture_names_only_what_is_there() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(sfumato(?:\.\w+)+)`", text))
    assert len(named) > 15
    assert [name for name in sorted(named) if not _resolves(name)] == []
    rooms = set(re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", text, flags=re.M))
    assert rooms
    assert all(_resolves(f"sfumato.{r}") for row in rooms for r in re.findall(r"`(\w+)`", row))


@cache
def homes() -> dict[str, str]:
    """Our modules, and the names each of them defines, as ``package.module`` and its text."""
    source = ROOT / "src" / "sfumato"
    return {
        ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(
            ".__init__"
        ): path.read_text(encoding="utf-8")
        for path in source.rglob("*.py")
    }


def is_in_the_code(name: str) -> bool:
    """Whether ``room/module.py`` or ``module.name`` is there."""
    if name.endswith(".py"):
        return any((ROOT / folder / name).exists() for folder in ("", "src/sfumato")) or any(
            f".{module}".endswith("." + name.removesuffix(".py").replace("/", "."))
            for module in homes()
        )
    home, _, last = name.rpartition(".")
    defined = re.compile(rf"^(?:    )?(?:def |class |\")?{last}\b", re.M)
    return name in homes() or any(
        f".{module}".endswith(f".{home}") and defined.search(text)
        for module, text in homes().items()
    )


@pytest.mark.parametrize("page", sorted(DOCS.glob("papers/*.md")), ids=lambda page: page.stem)
def test_pages_of_papers_name_what_is_in_the_code(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w/]+\.py|[a-z_]+(?:\.\w+)+)`", text))
    files = {name for name in named if re.search(r"\.(csv|json|toml|parquet)$", name)}
    assert [name for name in sorted(named - files) if not is_in_the_code(name)] == []


def test_every_field_of_the_certificate_is_explained() -> None:
    page = generated()[DOCS / "reference" / "certificate.md"]
    assert re.findall(r"^\| (`\w+`) \|.*\|  \|", page, re.M) == []
    for name, reason in FIELDS.items():
        assert re.search(rf"^\| `{name}` \| .+ \| {re.escape(reason)} \|$", page, re.M), name
    assert len(re.findall(r"^\| `\w+` \| .+ \|$", page, re.M)) > 15


def test_pictures_are_small() -> None:
    large = [p.name for p in DOCS.rglob("*.png") if p.stat().st_size > 250_000]
    assert not large


def test_pictures_have_a_description() -> None:
    for page in WRITTEN + BESIDE:
        assert "![](" not in page.read_text(encoding="utf-8"), page
