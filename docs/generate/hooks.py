"""What mkdocs calls: generated pages beside the written ones, options at the end of verbs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))
import reference


def on_config(config: Any) -> Any:
    """List the modules in the navigation."""
    for section in config["nav"]:
        for entry in section.get("Reference", ()):
            if "Python: modules" in entry:
                modules = reference.public_modules()
                entry["Python: modules"] = [{name: page} for page, name in modules.items()]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add every page that is read from the code."""
    for path, text in reference.pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let the page of a verb end with all its options."""
    path = Path(page.file.src_uri)
    if path.parent.name == "verbs":
        return markdown + reference.options_of(path.stem)
    return markdown


def on_post_template(output: str, template_name: str, **_: Any) -> str:
    """Leave out the page for what is not found: its links hold only on a server."""
    return "" if template_name == "404.html" else output
