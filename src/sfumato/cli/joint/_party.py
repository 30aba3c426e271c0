"""The rows of a joint study, and this party's end of an exact fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.cli._running import Run
from sfumato.errors import ParameterError
from sfumato.files import require_file
from sfumato.secure.tls import parse_address

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.joint import Agreement, JointModel
    from sfumato.joint.traffic import SumReport

__all__ = ["Party", "agreed_rows", "fit_together"]


@dataclass(frozen=True)
class Party:
    """Who this party is and how it finds the others, as given on the command line."""

    name: str | None
    coordinator: str | None
    listen: str | None
    connect: str | None
    certificate: str | None
    key: str | None
    others: Mapping[str, str]
    min_parties: int | None
    timeout: float

    def __post_init__(self) -> None:
        if not (self.name and self.coordinator and self.certificate and self.key and self.others):
            raise ParameterError(
                "an exact fit needs --agreement, --name, --coordinator, --certificate, --key and "
                "a --party for each of the others"
            )
        if bool(self.listen) == bool(self.connect) or (
            (self.name == self.coordinator) != bool(self.listen)
        ):
            raise ParameterError("the coordinator uses --listen, all others --connect")
        if self.name in self.others:
            raise ParameterError(f"--party names `{self.name}`, which is this party itself")
        for path in (self.certificate, self.key, *self.others.values()):
            require_file(path, "a certificate or key")
        self._address()

    def links(self) -> tuple[Any, Any]:
        """The certificates, and the connections they vouch for."""
        from sfumato.joint.links import Certificates, gather, join

        others = {name: Path(path) for name, path in self.others.items()}
        trust = Certificates(Path(str(self.certificate)), Path(str(self.key)), others)
        if self.listen:
            return trust, gather(self._address(), trust, self.timeout)
        return trust, join(self._address(), str(self.coordinator), trust, self.timeout)

    def _address(self) -> tuple[str, int]:
        if self.listen:
            return parse_address(self.listen, "--listen")
        return parse_address(self.connect or "", "--connect")


def fit_together(
    run: Run, agreed: Agreement, party: Party, model: Any, **settings: Any
) -> tuple[JointModel, SumReport]:
    """Fit exactly with the other parties, who all run the same command; and what it cost."""
    from sfumato.joint import SecureSum, fit_exact
    from sfumato.joint.own_rows import rows_to_fit
    from sfumato.joint.summing import until_complete

    table = agreed_rows(run, agreed)
    alone = {name: settings[name] for name in ("weight", "penalty", "horizon", "stratified")}
    rows_to_fit(table, agreed, model, where=str(run.source), **alone)
    run.budget.progress("waiting for the other parties")
    trust, links = party.links()
    common = {"agreement": agreed.hash, "model": model}
    common |= {name: value for name, value in settings.items() if name != "weight"}
    with SecureSum(
        str(party.name),
        links,
        str(party.coordinator),
        parameters=common,
        min_parties=party.min_parties,
        trust=trust,
    ) as summing:
        run.budget.progress("fitting together")
        fitted = until_complete(
            lambda: fit_exact(summing, table, agreed, model, where=str(run.source), **settings)
        )
    return fitted, summing.report()


def agreed_rows(
    run: Run, agreed: Agreement, renamed: Mapping[str, str] | None = None, *, outcome: bool = True
) -> pa.Table:
    """The agreed columns of the run's table, as Arrow rows, under their agreed names."""
    import pyarrow as pa

    told = agreed.outcome
    wanted = list(agreed.names)
    if outcome:
        wanted += [name for name in (told.time, told.event, told.label) if name is not None]
    own = [(renamed or {}).get(name, name) for name in wanted]
    names = run.table.require(own)
    batches = list(run.table.batches(names))
    schema = pa.schema([(name, run.table.column(name).type) for name in names])
    table = pa.Table.from_batches(batches) if batches else schema.empty_table()
    return table.rename_columns(wanted)
