"""TLS 1.3 with pinned certificates on both sides."""

from __future__ import annotations

import datetime
import ssl
import threading
from pathlib import Path

import pytest

from ports import connected, free_port
from sfumato import secure
from sfumato.errors import ParameterError, PeerError, SourceError


@pytest.fixture(scope="module")
def keys(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name in ("alice", "bob", "mallory"):
        secure.make_keys(folder, name)
    return folder


def tls(keys: Path, me: str, peer: str) -> secure.TLS:
    return secure.TLS(keys / f"{me}.crt", keys / f"{me}.key", keys / f"{peer}.crt")


def meet(alice: secure.TLS | None, bob: secure.TLS | None) -> list:
    """Both sides' outcome: what they computed, or the error."""
    port, outcome = free_port(), [None, None]

    def run(i, open_session, role, settings):
        try:
            with open_session(
                role, ("127.0.0.1", port), program="greet", tls=settings, timeout=60
            ) as session:
                outcome[i] = (session.exchange("name", role.encode()), session.report())
        except Exception as error:
            outcome[i] = error

    threads = [
        threading.Thread(target=run, args=(0, secure.listen, "alice", alice)),
        threading.Thread(target=run, args=(1, secure.connect, "bob", bob)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return outcome


def test_two_parties_with_each_others_certificates_meet(keys):
    (hello, report), (answer, _) = meet(tls(keys, "alice", "bob"), tls(keys, "bob", "alice"))
    assert (hello, answer) == (b"bob", b"alice")
    assert report.encrypted


def test_bob_is_not_who_alice_expects(keys):
    outcome = meet(tls(keys, "alice", "bob"), tls(keys, "mallory", "alice"))
    assert all(isinstance(error, PeerError) for error in outcome), outcome
    assert "certificate" in str(outcome[0])
    assert str(outcome[1]).count("refused this side's certificate") == 1


def test_alice_is_not_who_bob_expects(keys):
    outcome = meet(tls(keys, "mallory", "bob"), tls(keys, "bob", "alice"))
    assert all(isinstance(error, PeerError) for error in outcome), outcome
    assert "certificate" in str(outcome[1])


def test_one_side_without_tls(keys):
    for settings in ((None, tls(keys, "bob", "alice")), (tls(keys, "alice", "bob"), None)):
        outcome = meet(*settings)
        assert all(isinstance(error, PeerError) for error in outcome), outcome


def test_older_tls_is_refused(keys):
    port = free_port()
    outcome = []

    def serve():
        try:
            secure.listen(
                "alice", ("127.0.0.1", port), program="x", tls=tls(keys, "alice", "bob"), timeout=60
            )
        except PeerError as error:
            outcome.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(keys / "alice.crt")
    context.load_cert_chain(keys / "bob.crt", keys / "bob.key")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with connected(port) as plain, pytest.raises(ssl.SSLError):
        context.wrap_socket(plain)
    thread.join(60)
    assert "no TLS 1.3 connection" in str(outcome[0])


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
    (tmp_path / "bob2.key").write_bytes(
        fresh.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    forged = secure.TLS(tmp_path / "bob2.crt", tmp_path / "bob2.key", keys / "alice.crt")
    outcome = meet(tls(keys, "alice", "bob"), forged)
    assert all(isinstance(error, PeerError) for error in outcome), outcome


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


def test_this_sides_own_certificate_is_not_the_others(keys):
    settings = tls(keys, "alice", "alice")
    for server in (True, False):
        with pytest.raises(SourceError, match=r"alice\.crt: this is this side's own certificate"):
            settings.context(server=server)


def test_keys_are_private_and_never_overwritten(tmp_path):
    made = secure.make_keys(tmp_path / "new", "clinic-1")
    assert made.key.stat().st_mode & 0o077 == 0
    assert len(made.fingerprint) == 64
    before = made.key.read_bytes()
    with pytest.raises(ParameterError, match="already exists"):
        secure.make_keys(tmp_path / "new", "clinic-1")
    assert made.key.read_bytes() == before
    assert b"PRIVATE" not in made.certificate.read_bytes()


@pytest.mark.parametrize("name", ["", "../x", "a b", "x" * 61])
def test_odd_names_are_refused(tmp_path, name):
    with pytest.raises(ParameterError, match="name"):
        secure.make_keys(tmp_path, name)


def test_odd_lifetimes_are_refused(tmp_path):
    with pytest.raises(ParameterError, match="0 days"):
        secure.make_keys(tmp_path, "x", days=0)
