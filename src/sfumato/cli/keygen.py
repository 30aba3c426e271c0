"""``sfumato keygen``: a pair of keys that signs certificates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from rich.console import RenderableType
from rich.text import Text

from sfumato.cli._options import argument, examples, new_app, setting
from sfumato.cli._running import Run, verb

if TYPE_CHECKING:
    from sfumato.keyfiles import KeyPair

app = new_app()


@app.command(
    epilog=examples(
        "sfumato keygen hospital --folder keys",
        "sfumato anonymize people.csv --config anonymize.toml -o out.csv --sign keys/hospital.key",
        "sfumato verify out.csv --signer keys/hospital.pub",
    )
)
@verb
def keygen(
    run: Run,
    name: Annotated[str, argument("NAME", "What to call the pair.")],
    folder: Annotated[str, setting("--folder DIR", "Where to put the two files.")] = ".",
) -> None:
    """Make a key pair that signs certificates (Ed25519).

    NAME.key stays with you, readable by nobody else; NAME.pub goes to those who verify your
    releases. The key may also make pseudonyms (--key-file). Nothing is ever overwritten.
    """
    from sfumato.keyfiles import make_pair

    run.show(make_pair(folder, name), view)


def view(made: KeyPair) -> RenderableType:
    return Text(
        f"Key {made.key}: it stays here.\n"
        f"Public key {made.public}: give it to those who verify your releases.\n"
        f"To compare over the telephone:\n{made.fingerprint}",
        no_wrap=True,
        overflow="ignore",
    )
