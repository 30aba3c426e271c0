"""TLS 1.3 with pinned certificates on both sides."""

from __future__ import annotations

import contextlib
import datetime
import random
import socket
import ssl
import textwrap
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from ports import connected, free_port
from sfumato import secure
from sfumato.budget import Budget
from sfumato.errors import InputError, ParameterError, PeerError, SourceError
from sfumato.files import write_secret
from sfumato.secure.tls import Door


@pytest.fixture(scope="module")
def keys(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name in ("alice", "bob", "mallory"):
        secure.make_keys(folder, name)
    return folder


def tls(keys: Path, me: str, peer: str) -> secure.TLS:
    return secure.TLS(keys / f"{me}.crt", keys / f"{me}.key", keys / f"{peer}.crt")


def greet(open_session, role, port, settings, **more):
    with open_session(
        role, ("127.0.0.1", port), program="greet", tls=settings, timeout=60, **more
    ) as session:
        return session.exchange("name", role.encode()), session.report()


class Listener:
    """Alice, waiting in a thread of her own, and whom she turned away."""

    def __init__(self, settings: secure.TLS | None) -> None:
        self.port = free_port()
        self.told: list[str] = []
        self.found = None
        budget = Budget(on_progress=lambda doing, share: self.told.append(doing))
        self._thread = threading.Thread(target=self._run, args=(settings, budget))
        self._thread.start()

    def _run(self, settings, budget):
        try:
            self.found = greet(secure.listen, "alice", self.port, settings, budget=budget)
        except Exception as error:
            self.found = error

    def meets(self, settings: secure.TLS | None):
        """Bob comes, and both hear each other's name."""
        answer, report = greet(secure.connect, "bob", self.port, settings)
        self._thread.join(60)
        assert not self._thread.is_alive()
        assert (self.found[0], answer) == (b"bob", b"alice"), self.found
        return report


def refused(listener: Listener, settings: secure.TLS | None) -> str:
    """What somebody hears who is not let in."""
    with pytest.raises(PeerError) as caught:
        greet(secure.connect, "bob", listener.port, settings)
    return str(caught.value)


def test_two_parties_with_each_others_certificates_meet(keys):
    listener = Listener(tls(keys, "alice", "bob"))
    assert listener.meets(tls(keys, "bob", "alice")).encrypted
    assert not listener.told


def test_somebody_elses_certificate_is_turned_away_and_bob_comes_in(keys):
    listener = Listener(tls(keys, "alice", "bob"))
    heard = refused(listener, tls(keys, "mallory", "alice"))
    assert heard.count("refused this side's certificate") == 1
    listener.meets(tls(keys, "bob", "alice"))
    assert len(listener.told) == 1
    assert "certificate is not the expected one" in listener.told[0]


def test_alice_is_not_who_bob_expects(keys):
    listener = Listener(tls(keys, "mallory", "bob"))
    assert "certificate" in refused(listener, tls(keys, "bob", "alice"))
    listener.meets(tls(keys, "bob", "mallory"))


def test_one_side_without_tls(keys):
    listener = Listener(tls(keys, "alice", "bob"))
    assert "closed the connection" in refused(listener, None)
    listener.meets(tls(keys, "bob", "alice"))
    listener = Listener(None)
    assert "during the TLS greeting" in refused(listener, tls(keys, "bob", "alice"))
    listener.meets(None)
    assert all("does not speak this protocol" in told for told in listener.told)


def test_older_tls_is_refused(keys):
    listener = Listener(tls(keys, "alice", "bob"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(keys / "alice.crt")
    context.load_cert_chain(keys / "bob.crt", keys / "bob.key")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with connected(listener.port) as plain, pytest.raises(ssl.SSLError):
        context.wrap_socket(plain)
    listener.meets(tls(keys, "bob", "alice"))
    assert "no TLS 1.3 connection" in listener.told[0]


PROBES = {
    "knocks": b"",
    "a browser": b"GET / HTTP/1.1\r\nHost: alice\r\n\r\n",
    "half a greeting": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "noise": bytes(range(256)) * 300,
    "a frame that opens nothing": b"SFUd" + bytes(12),
}


@pytest.mark.parametrize("encrypted", [True, False], ids=["TLS", "plain"])
def test_strangers_at_the_port_do_not_end_a_session(keys, encrypted):
    """One connection of a port scanner used to be the whole session."""
    listener = Listener(tls(keys, "alice", "bob") if encrypted else None)
    for probe in PROBES.values():
        with connected(listener.port) as stranger, contextlib.suppress(OSError):
            stranger.sendall(probe)
    with connected(listener.port), connected(listener.port) as half:  # one is silent, one stays
        half.sendall(b"\x16\x03")
        listener.meets(tls(keys, "bob", "alice") if encrypted else None)
    assert listener.told


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("encrypted", [True, False], ids=["TLS", "plain"])
def test_many_strangers_who_say_anything(keys, encrypted, count):
    rng = random.Random(count)
    listener = Listener(tls(keys, "alice", "bob") if encrypted else None)
    staying = []
    for _ in range(count):
        stranger = connected(listener.port)
        stranger.settimeout(0.2)
        with contextlib.suppress(OSError):
            opening = rng.choice([b"", b"\x16\x03\x01\x00\xc8\x01", b"SFUd", b"SFUx"])
            stranger.sendall(opening + rng.randbytes(rng.choice([0, 1, 16, 5000])))
        if rng.random() < 0.1:
            staying.append(stranger)
        else:
            stranger.close()
    listener.meets(tls(keys, "bob", "alice") if encrypted else None)
    for stranger in staying:
        stranger.close()


def test_a_crowd_of_silent_strangers_is_bounded_and_keeps_nobody_out(keys, monkeypatch):
    monkeypatch.setattr("sfumato.secure.tls._CALLERS", 4)
    listener = Listener(tls(keys, "alice", "bob"))
    crowd = [connected(listener.port) for _ in range(12)]
    for stranger in crowd[:8]:  # the oldest had to make room
        stranger.settimeout(60)
        with contextlib.suppress(ConnectionError):
            assert stranger.recv(1) == b""
    listener.meets(tls(keys, "bob", "alice"))
    for stranger in crowd:
        stranger.close()


def test_a_silent_stranger_is_sent_away_in_time(keys, monkeypatch):
    monkeypatch.setattr("sfumato.secure.tls._GREETING_SECONDS", 0.2)
    listener = Listener(None)
    with connected(listener.port) as stranger:
        stranger.settimeout(60)
        assert stranger.recv(1) == b""
    monkeypatch.undo()
    listener.meets(None)
    assert "showed nothing within" in listener.told[0]


def test_a_place_that_swallows_everything_does_not_keep_the_next_from_answering(monkeypatch):
    """As a firewall does with one of a name's two addresses."""
    monkeypatch.setattr("sfumato.secure.tls._PLACE_SECONDS", 0.2)
    listener = Listener(None)
    with contextlib.ExitStack() as stack:
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):  # its queue is full: it answers nobody
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(silent.getsockname())
        places = [(socket.AF_INET, silent.getsockname())]
        places += [(socket.AF_INET, ("127.0.0.1", listener.port))]
        monkeypatch.setattr("sfumato.secure.tls._resolve", lambda *_, **__: places)
        listener.meets(None)


@pytest.mark.parametrize("host", ["a..b", "x" * 70, "a\udcff"])
def test_a_name_that_no_host_can_have_is_refused(host):
    with pytest.raises(ParameterError, match="host name cannot be found"):
        secure.connect("bob", (host, 7000), program="x", timeout=1)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), 1e300])
def test_time_outs_that_are_none(timeout):
    for meet in (secure.listen, secure.connect):
        with pytest.raises(ParameterError, match="a time-out is a number of seconds"):
            meet("bob", ("127.0.0.1", 9), program="x", timeout=timeout)


def test_nobody_comes_but_strangers(keys):
    port = free_port()
    probe = threading.Thread(target=lambda: connected(port).close())
    probe.start()
    with pytest.raises(PeerError, match=r"did not connect within 1 s \(1 turned away"):
        secure.listen(
            "alice", ("127.0.0.1", port), program="x", tls=tls(keys, "alice", "bob"), timeout=1
        )
    probe.join()


def test_a_certificate_signed_by_the_pinned_one_is_not_the_pinned_one(keys, tmp_path):
    """A pinned key must not serve as an authority for other certificates."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    issuer = x509.load_pem_x509_certificate((keys / "bob.crt").read_bytes())
    signer = serialization.load_pem_private_key((keys / "bob.key").read_bytes(), None)
    fresh = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    child = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "bob2")]))
        .issuer_name(issuer.subject)
        .public_key(fresh.public_key())
        .serial_number(7)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(signer, hashes.SHA256())
    )
    (tmp_path / "bob2.crt").write_bytes(child.public_bytes(serialization.Encoding.PEM))
    write_secret(
        tmp_path / "bob2.key",
        fresh.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )
    forged = secure.TLS(tmp_path / "bob2.crt", tmp_path / "bob2.key", keys / "alice.crt")
    listener = Listener(tls(keys, "alice", "bob"))
    refused(listener, forged)
    listener.meets(tls(keys, "bob", "alice"))
    assert "certificate" in listener.told[0]


def test_missing_and_wrong_files_are_named(keys, tmp_path):
    nothing = tmp_path / "nothing.crt"
    with pytest.raises(SourceError, match=r"nothing\.crt: there is no such file"):
        secure.TLS(keys / "alice.crt", keys / "alice.key", nothing).context(server=True)
    with pytest.raises(SourceError, match="do not belong together"):
        secure.TLS(keys / "alice.crt", keys / "bob.key", keys / "bob.crt").context(server=True)
    good = (keys / "bob.crt").read_text()
    for wrong in ("not a certificate", "", good + good, good.replace("M", "#", 1), "\0\xff"):
        nothing.write_text(wrong)
        with pytest.raises(SourceError, match="not a single certificate"):
            secure.TLS(keys / "alice.crt", keys / "alice.key", nothing).context(server=False)


def test_this_sides_own_certificate_is_known_however_it_is_written(keys, tmp_path):
    own = keys / "alice.crt"
    again = tmp_path / "again.crt"
    first, *lines, last = own.read_text().splitlines()
    again.write_text("\n".join([first, *textwrap.wrap("".join(lines), 32), last]))
    with pytest.raises(SourceError, match=r"again\.crt: this is this side's own certificate"):
        secure.TLS(own, keys / "alice.key", again).context(server=True)


def test_nobody_is_asked_for_the_password_of_a_key(keys, tmp_path, capfd):
    from cryptography.hazmat.primitives import serialization

    private = serialization.load_pem_private_key((keys / "alice.key").read_bytes(), None)
    locked = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    write_secret(tmp_path / "alice.key", locked)
    with pytest.raises(SourceError, match="do not belong together or cannot be read"):
        secure.TLS(keys / "alice.crt", tmp_path / "alice.key", keys / "bob.crt").context(
            server=True
        )
    assert capfd.readouterr() == ("", "")


def test_this_sides_own_certificate_is_not_the_others(keys):
    settings = tls(keys, "alice", "alice")
    for server in (True, False):
        with pytest.raises(SourceError, match=r"alice\.crt: this is this side's own certificate"):
            settings.context(server=server)


def test_a_key_that_others_can_read_is_refused(tmp_path):
    for name in ("alice", "bob"):
        secure.make_keys(tmp_path, name)
    (tmp_path / "alice.key").chmod(0o644)
    with pytest.raises(InputError, match="chmod 600"):
        tls(tmp_path, "alice", "bob").context(server=True)


def test_no_key_is_written_through_a_link(tmp_path):
    for ending in ("crt", "key"):
        (tmp_path / f"eve{ending}.{ending}").symlink_to(tmp_path / "planted")
        with pytest.raises(ParameterError, match="already exists"):
            secure.make_keys(tmp_path, f"eve{ending}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evecrt.crt", "evekey.key"]


def test_keys_are_private_and_never_overwritten(tmp_path):
    made = secure.make_keys(tmp_path / "new", "clinic-1")
    assert made.key.stat().st_mode & 0o077 == 0
    assert len(made.fingerprint) == 64
    before = made.key.read_bytes()
    with pytest.raises(ParameterError, match="already exists"):
        secure.make_keys(tmp_path / "new", "clinic-1")
    assert made.key.read_bytes() == before
    assert b"PRIVATE" not in made.certificate.read_bytes()


@pytest.mark.parametrize("name", ["", "../x", "a b", "x" * 61, "-x", ".x"])
def test_odd_names_are_refused(tmp_path, name):
    with pytest.raises(ParameterError, match="name"):
        secure.make_keys(tmp_path, name)


def test_odd_lifetimes_are_refused(tmp_path):
    with pytest.raises(ParameterError, match="0 days"):
        secure.make_keys(tmp_path, "x", days=0)


def test_any_certificate_but_the_pinned_one_is_refused_whatever_tls_thinks_of_it(keys):
    """OpenSSL refuses others as well: this is what is left where a library errs."""
    tls = secure.TLS(keys / "alice.crt", keys / "alice.key", keys / "bob.crt")

    def shows(certificate):
        return SimpleNamespace(
            getpeercert=lambda binary_form: certificate, do_handshake=lambda: None
        )

    tls.check(shows(tls.pinned()))
    for strange in (tls.pinned()[:-1], b"", None):
        with pytest.raises(PeerError, match="different certificate"):
            tls.check(shows(strange))
    door, away = object.__new__(Door), []
    door._names = {tls.pinned(): "bob"}
    door._turn_away = lambda caller, why: away.append(why)
    assert door._greeted(None, shows(tls.pinned())) == "bob"
    assert door._greeted(None, shows(b"strange")) is None
    assert away == ["shows a certificate that was not handed over"]
