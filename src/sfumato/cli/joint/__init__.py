"""``sfumato joint``: models across institutions that do not share rows, one module a verb."""

from __future__ import annotations

from sfumato.cli._options import new_app
from sfumato.cli.joint import agreement, choose, fit, keys, score, seeds, share

__all__ = ["app"]

app = new_app(
    help="Models across institutions that do not share rows: agree, share, fit, score.",
    no_args_is_help=True,
)
app.command(epilog=agreement.EXAMPLES)(agreement.agreement)
app.command(epilog=share.EXAMPLES)(share.share)
app.command(epilog=fit.EXAMPLES)(fit.fit)
app.command(epilog=score.EXAMPLES)(score.score)
app.command(epilog=seeds.EXAMPLES)(seeds.seeds)
app.command(epilog=choose.EXAMPLES)(choose.choose)
app.command(epilog=keys.EXAMPLES)(keys.keys)
