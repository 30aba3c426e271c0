"""``sfumato joint keys``: this party's certificate for exact fits."""

from __future__ import annotations

from typing import Annotated

import typer

from sfumato.cli._options import examples
from sfumato.cli._running import Run, verb

__all__ = ["EXAMPLES", "keys"]

EXAMPLES = examples("sfumato joint keys A --folder keys")


@verb
def keys(
    run: Run,
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="This party.")],
    folder: Annotated[str, typer.Option(metavar="DIR", help="Where to write them.")] = ".",
) -> None:
    """Make this party's certificate and private key for exact fits.

    Give NAME.crt to all other parties on a way you trust, and read its fingerprint to them over the
    telephone. NAME.key stays.
    """
    from sfumato.joint.reports import Keys
    from sfumato.secure import make_keys

    made = make_keys(folder, name)
    run.show(
        Keys(name, str(made.certificate), str(made.key), made.fingerprint),
        lambda told: (
            f"Certificate for the others: {told.certificate}\nPrivate key, stays here: {told.key}\n"
            f"Fingerprint: {told.fingerprint}"
        ),
    )
