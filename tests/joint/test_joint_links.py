"""Links of the exact fit: pinned certificates, one port, strangers turned away."""

from __future__ import annotations

import math
import socket
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from joint_studies import study
from ports import at_once, free_port, raised
from sfumato.budget import Budget
from sfumato.errors import BudgetError, ParameterError, PeerError, SourceError
from sfumato.joint import Exchange, Parties, Shamir, fit_cox, fit_exact, fit_logistic, survived
from sfumato.joint.parties import Certificates, gather, join
from sfumato.secure import make_keys
from sfumato.secure.channel import Channel


def certificates(folder: Path, names: str) -> dict[str, Certificates]:
    keys = {name: make_keys(folder, name) for name in names}
    return {
        name: Certificates(
            own.certificate, own.key, {o: k.certificate for o, k in keys.items() if o != name}
        )
        for name, own in keys.items()
    }


def run(trusts: dict[str, Certificates], port: int, timeout: float = 20.0) -> dict[str, Any]:
    def party(name: str) -> Any:
        address, trust = ("127.0.0.1", port), trusts[name]
        hub = name == "a"
        links = gather(address, trust, timeout) if hub else join(address, "a", trust, timeout)
        with Exchange(name, links, "a", trust=trust) as exchange:
            shared = Shamir(exchange)
            return shared.open("x", shared.total("x", np.array([float(ord(name))])), 8)

    return at_once(trusts, party)


def test_sums_over_tls_with_signed_keys(tmp_path: Path) -> None:
    done = run(certificates(tmp_path, "abc"), free_port())
    for name in "abc":
        assert done[name] == pytest.approx(97.0 + 98.0 + 99.0, abs=0.01)


def test_a_stranger_is_turned_away_and_the_others_wait(tmp_path: Path) -> None:
    trusts = certificates(tmp_path / "known", "abc")
    stranger = certificates(tmp_path / "strange", "ac")["c"]
    known = {"a": trusts["a"].certificate, "b": trusts["b"].certificate}
    trusts["c"] = Certificates(stranger.certificate, stranger.key, known)
    done = run(trusts, free_port(), timeout=2.0)
    assert isinstance(done["a"], PeerError)
    assert "`c` did not connect" in str(done["a"])
    assert isinstance(done["b"], PeerError)
    assert isinstance(done["c"], PeerError)


def test_a_coordinator_that_leaves_a_party_out_is_caught(tmp_path: Path) -> None:
    trusts = certificates(tmp_path, "abcd")
    own = trusts.pop("d")
    shorter = {name: path for name, path in trusts["a"].others.items() if name != "d"}
    trusts["a"] = Certificates(trusts["a"].certificate, trusts["a"].key, shorter)
    assert "d" not in own.others
    done = run(trusts, free_port())
    for name in "bc":
        assert isinstance(done[name], PeerError)
    assert any("does not list the agreed parties" in str(done[name]) for name in "bc")


def test_somebody_who_only_knocks_does_not_stop_the_parties(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.secure.tls._GREETING_SECONDS", 3.0)
    trusts = certificates(tmp_path, "abc")
    port = free_port()
    knocking = threading.Event()

    def knock() -> None:
        while not knocking.is_set():
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=0.1):
                    knocking.wait(60)
                return
            except OSError:
                knocking.wait(0.01)

    stranger = threading.Thread(target=knock)
    stranger.start()
    done = run(trusts, port)
    knocking.set()
    stranger.join()
    for name in "abc":
        assert done[name] == pytest.approx(97.0 + 98.0 + 99.0, abs=0.01)


def test_signatures_belong_to_certificates(tmp_path: Path) -> None:
    trusts = certificates(tmp_path, "abc")
    signature = trusts["b"].sign(b"key")
    assert trusts["a"].verify("b", b"key", signature)
    assert not trusts["a"].verify("b", b"other key", signature)
    assert not trusts["a"].verify("c", b"key", signature)
    assert not trusts["a"].verify("stranger", b"key", signature)


def test_bad_settings_are_refused(tmp_path: Path) -> None:
    trusts = certificates(tmp_path, "ab")
    with pytest.raises(ParameterError, match="certificates are missing"):
        Certificates(tmp_path / "a.crt", tmp_path / "a.key", {})
    with pytest.raises(ParameterError, match="no certificate for the coordinator"):
        join(("127.0.0.1", 1), "z", trusts["a"], 1.0)
    (tmp_path / "junk.crt").write_text("junk")
    junk = Certificates(tmp_path / "a.crt", tmp_path / "a.key", {"b": tmp_path / "junk.crt"})
    with pytest.raises(SourceError, match="not a single certificate"):
        gather(("127.0.0.1", free_port()), junk, 1.0)
    for twice in ({"b": tmp_path / "b.crt", "c": tmp_path / "b.crt"}, {"b": tmp_path / "a.crt"}):
        own = Certificates(tmp_path / "a.crt", tmp_path / "a.key", twice)
        with pytest.raises(ParameterError, match="same certificate"):
            gather(("127.0.0.1", free_port()), own, 1.0)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        with pytest.raises(ParameterError, match="cannot listen"):
            gather(("127.0.0.1", taken.getsockname()[1]), trusts["a"], 1.0)


def fitted(
    folder: Path, sites: dict[str, list[str]], *what: Any, columns: int = 6, **settings: Any
) -> Any:
    """Lung, fitted by parties that hold some of its sites each; and the rows of all of them."""
    lung = study("lung", dimensions=columns - 1)
    agreed = replace(lung.agreement, columns=lung.agreement.columns[:columns])
    lung = replace(lung, agreement=agreed)
    keys = {name: make_keys(folder, name) for name in sites}
    address = f"127.0.0.1:{free_port()}"

    def party(name: str) -> Any:
        parties = Parties(
            name,
            "a",
            **{"listen" if name == "a" else "connect": address},
            certificate=keys[name].certificate,
            key=keys[name].key,
            others={other: own.certificate for other, own in keys.items() if other != name},
        )
        rows = lung.table.filter(pa.array(np.isin(lung.institution, sites[name])))
        return fit_exact(rows.to_pandas(), lung.agreement, *what, parties=parties, **settings)

    return lung, raised(at_once(sites, party))


def test_an_exact_fit_from_python(tmp_path: Path) -> None:
    """Each party calls `fit_exact` with its own table; all get the model of the pooled rows."""
    lung, done = fitted(tmp_path, {"a": ["A", "B"], "b": ["C"], "c": ["D"]}, "cox")
    pooled = fit_cox(lung.encoded.matrix, *lung.outcome)
    for model in done.values():
        np.testing.assert_allclose(model.coefficients, pooled.coefficients, rtol=0, atol=1e-6)
        assert model.session.parties == ("a", "b", "c")
        assert model.session.encrypted
        assert model.leakage.holds()
    assert len(done) == 3


def test_two_parties_fit_by_oblivious_transfer(tmp_path: Path) -> None:
    sites = {"a": ["A", "B"], "b": ["C", "D"]}
    lung, done = fitted(tmp_path, sites, "logistic", columns=3, precision=1e-3)
    lived, known = survived(*lung.outcome, 365)
    pooled = fit_logistic(lung.encoded.matrix[known], lived[known])
    for model in done.values():
        np.testing.assert_allclose(model.coefficients, pooled.coefficients, rtol=0, atol=1e-3)
        assert set(model.session.opened) == {"classes", "rank", "step"}
        assert model.session.bytes_sent > 10_000_000  # nothing is as cheap as three parties
    assert done["a"].coefficients.tolist() == done["b"].coefficients.tolist()


@pytest.mark.parametrize("me", ["a", "b"])
def test_the_time_of_the_whole_fit_holds(tmp_path: Path, me: str) -> None:
    known = certificates(tmp_path, "abc")[me]
    where = {"listen" if me == "a" else "connect": f"127.0.0.1:{free_port()}"}
    parties = Parties(
        me,
        "a",
        **where,
        certificate=known.certificate,
        key=known.key,
        others=known.others,
        timeout=600,
        budget=Budget(seconds=0.5),
    )
    with pytest.raises(BudgetError, match="the time was over before all sides had met"):
        parties.meet({})


def test_a_line_of_an_exact_fit_knows_how_long_all_may_take(tmp_path: Path) -> None:
    trusts, port = certificates(tmp_path, "ab"), free_port()

    def party(name: str) -> Any:
        address, trust = ("127.0.0.1", port), trusts[name]
        budget = Budget()
        if name == "a":
            links = gather(address, trust, 60.0, budget)
        else:
            links = join(address, "a", trust, 60.0, budget)
        (line,) = links.values()
        assert isinstance(line, Channel)
        budget.cancel()
        with pytest.raises(BudgetError, match="stopped before all sides had finished"):
            line.receive("x", 1)

    raised(at_once("ab", party))


def test_parties_that_cannot_meet(tmp_path: Path) -> None:
    own = make_keys(tmp_path, "a")
    given: dict[str, Any] = {"certificate": own.certificate, "key": own.key}
    with pytest.raises(ParameterError, match="--party for each of the others"):
        Parties("a", "a", listen="127.0.0.1:9", **given)
    given["others"] = dict.fromkeys("bc", own.certificate)
    with pytest.raises(ParameterError, match="--connect"):
        Parties("a", "a", connect="127.0.0.1:9", **given)
    with pytest.raises(ParameterError, match="this party itself"):
        Parties("b", "a", connect="127.0.0.1:9", **given)
    with pytest.raises(ParameterError, match="host:port"):
        Parties("a", "a", listen="127.0.0.1", **given)
    for seconds in (0.0, math.nan, math.inf, 1e300):
        with pytest.raises(ParameterError, match="a time-out is a number"):
            Parties("a", "a", listen="127.0.0.1:9", timeout=seconds, **given)
    broken = tmp_path / "broken.crt"
    broken.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    given["others"] = {"b": broken}
    with pytest.raises(SourceError, match=r"broken\.crt: this is not a single certificate"):
        Parties("a", "a", listen="127.0.0.1:9", **given)
