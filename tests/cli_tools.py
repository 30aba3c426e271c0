"""Runs the command line inside the test process, as a user's shell would see it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from typer.testing import CliRunner

from sfumato.cli._main import app


@dataclass(frozen=True)
class Done:
    """What a run of the program left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as the one JSON object it must be."""
        assert self.code in (0, 1), self.err
        assert self.out.count("\n") == 1, "exactly one object on one line"
        return json.loads(self.out)


def sfumato(*arguments: object, stdin: str | bytes | None = None) -> Done:
    """Run ``sfumato`` with these arguments on a terminal of 80 columns."""
    result = CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1"}).invoke(
        app, [str(argument) for argument in arguments], input=stdin, prog_name="sfumato"
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Done(result.exit_code, result.stdout, result.stderr)
