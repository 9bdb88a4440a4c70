"""What lies between this machine and the file: redirects, certificates, proxies, mirrors, slow lines, no network."""

import datetime
import ipaddress
import itertools
import ssl
from collections.abc import Iterable
from pathlib import Path

import pytest

from recordzoo.errors import (
    DownloadError,
    HashMismatchError,
    TermsError,
)
from recordzoo.sources.download import RemoteFile
from tests.downloading import (
    CHUNK,
    DATA,
    NAME,
    OTHER,
    Recorder,
    files,
    get,
    quick,  # noqa: F401 - a fixture
    remote,
    run_child,
    serve,
)
from tests.fakes.server import Fault, FileServer

# Redirects


def test_redirects_are_followed(tmp_path: Path) -> None:
    hops = {f"hop{i}": [Fault(location=f"/hop{i + 1}")] for i in range(4)}
    with FileServer({NAME: DATA}, {NAME: [Fault(location="/hop0")], **hops, "hop4": [Fault(body=DATA)]}) as server:
        assert get(remote(server), tmp_path).read_bytes() == DATA
    assert [request.path for request in server.log] == [NAME, "hop0", "hop1", "hop2", "hop3", "hop4"]


def test_a_redirected_download_resumes_by_its_first_address(tmp_path: Path) -> None:
    faults = {NAME: itertools.repeat(Fault(location="/store?signature=1")), "store": [Fault(drop_after=1000)]}
    with FileServer({"store": DATA}, faults) as server:
        assert get(remote(server, sha256=None), tmp_path).read_bytes() == DATA
    assert server.sent("store") == len(DATA)


@pytest.mark.parametrize(
    ("location", "message"),
    [
        (f"/{NAME}", "redirected in a loop"),
        ("/hop0", "more than 5 redirects, the last one to .*/hop5"),
        ("ftp://127.0.0.1/a", "redirects to ftp://127.0.0.1/a"),
        ("file:///etc/hostname", "redirects to file:///etc/hostname"),
    ],
)
def test_redirects_that_are_not_followed(tmp_path: Path, location: str, message: str) -> None:
    hops: dict[str, Iterable[Fault]] = {f"hop{i}": [Fault(location=f"/hop{i + 1}")] for i in range(9)}
    faults = {NAME: itertools.repeat(Fault(location=location)), **hops}
    with FileServer({}, faults) as server, pytest.raises(DownloadError, match=message):
        get(remote(server), tmp_path)
    assert len(server.log) <= 6


@pytest.fixture
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    """A server's context with a certificate for 127.0.0.1, and the file that a client must trust for it."""
    x509 = pytest.importorskip("cryptography.x509", reason="certificates are made with cryptography")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "certificate.pem"
    encoding = serialization.Encoding.PEM
    path.write_bytes(certificate.public_bytes(encoding))
    secret = path.with_name("key.pem")
    secret.write_bytes(
        key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path, secret)
    return context, path


def test_https_never_goes_to_http(
    tmp_path: Path, tls: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tls[1]))
    with serve() as plain:
        faults = {NAME: [Fault(drop_after=1000)], "down": [Fault(location=f"{plain.url}/{NAME}")]}
        with FileServer({NAME: DATA}, faults, tls[0]) as secure:
            with pytest.raises(DownloadError, match=r"from https only https is followed"):
                get(remote(urls=(f"{secure.url}/down",)), tmp_path)
            assert get(remote(secure), tmp_path).read_bytes() == DATA
        assert plain.log == []


def test_a_certificate_that_is_not_valid_is_named_and_not_worked_around(
    tmp_path: Path, tls: tuple[ssl.SSLContext, Path]
) -> None:
    message = r"certificate of 127\.0\.0\.1.*self.signed.*REQUESTS_CA_BUNDLE"
    with FileServer({NAME: DATA}, tls=tls[0]) as secure, pytest.raises(DownloadError, match=message):
        get(remote(secure), tmp_path)
    assert secure.log == []


# Several addresses


def test_the_mirror_is_asked_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FileServer({f"base/birds/{NAME}": DATA, f"env/birds/{NAME}": DATA}) as mirror, serve() as server:
        get(remote(server), tmp_path / "1", mirror=f"{mirror.url}/base/")
        monkeypatch.setenv("RECORDZOO_MIRROR", f"{mirror.url}/env")
        get(remote(server), tmp_path / "2")
        get(remote(server), tmp_path / "3", mirror=f"{mirror.url}/base")
    assert [request.path for request in mirror.log] == [f"{where}/birds/{NAME}" for where in ("base", "env", "base")]
    assert server.log == []


def test_the_next_address_goes_on_where_the_first_one_failed(tmp_path: Path) -> None:
    with serve(Fault(drop_after=5000), Fault(status=404)) as first, serve() as second:
        assert get(remote(first, second), tmp_path).read_bytes() == DATA
    assert second.log[0].range == "bytes=5000-"
    assert second.log[0].if_range is None
    assert first.sent(NAME) + second.sent(NAME) == len(DATA)


def test_the_next_address_starts_over_if_no_hash_is_known(tmp_path: Path) -> None:
    with serve(Fault(body=OTHER, drop_after=5000), Fault(status=404)) as first, serve() as second:
        assert get(remote(first, second, sha256=None), tmp_path).read_bytes() == DATA
    assert second.log[0].range is None


def test_bytes_of_two_addresses_are_never_resumed_without_a_hash(tmp_path: Path) -> None:
    with serve(Fault(drop_after=5000), Fault(status=404)) as first, serve() as second:
        with pytest.raises(KeyboardInterrupt):
            get(remote(first, second), tmp_path, progress=Recorder(die_at=CHUNK))
        assert files(tmp_path) == {f"{NAME}.part"}
        get(remote(second, sha256=None), tmp_path)
    assert second.log[-1].range is None


def test_a_wrong_file_of_one_address_gives_way_to_the_right_one_of_another(tmp_path: Path) -> None:
    with serve(data=OTHER) as first, serve() as second:
        assert get(remote(first, second), tmp_path, progress=Recorder()).read_bytes() == DATA
    assert files(tmp_path) == {NAME}


def test_all_addresses_are_named_when_none_has_it(tmp_path: Path) -> None:
    with serve(Fault(status=404)) as first, serve(data=OTHER) as second, serve(Fault(status=403)) as third:
        with pytest.raises(HashMismatchError, match=r"none of 3 addresses") as error:
            get(remote(first, second, third), tmp_path)
        for server in (first, second, third):
            assert f"{server.url}/{NAME}" in str(error.value)
    assert error.value.path.read_bytes() == OTHER


# Asked not to


def test_terms_that_are_not_accepted_give_the_instructions_and_touch_nothing(tmp_path: Path) -> None:
    with serve() as server:
        file = remote(server, needs_terms=True, instructions="1. Sign up.\n2. Download.")
        with pytest.raises(TermsError, match=r"^1\. Sign up\.\n2\. Download\.\n") as error:
            get(file, tmp_path / "data")
        for part in (str(tmp_path / "data" / NAME), "1 MB", str(file.sha256)):
            assert part in str(error.value)
        assert server.log == []
        assert files(tmp_path) == set()
        get(file, tmp_path, accept_terms=True)
    assert len(server.log) == 1


def test_a_mirror_needs_no_terms_and_its_failure_does_not_reach_the_official_host(tmp_path: Path) -> None:
    with FileServer({f"birds/{NAME}": DATA}, {f"birds/{NAME}": [Fault(status=404)]}) as mirror, serve() as server:
        file = remote(server, needs_terms=True, instructions="1. Sign up.")
        with pytest.raises(DownloadError, match=r"404(.|\n)*1\. Sign up"):
            get(file, tmp_path, mirror=mirror.url)
        get(file, tmp_path, mirror=mirror.url)
    assert server.log == []


def test_a_file_without_address_gives_the_instructions(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"1\. Ask by mail\.\n.*birds\.tgz \(size unknown, no known hash\)"):
        get(RemoteFile(NAME, instructions="1. Ask by mail."), tmp_path)
    with pytest.raises(DownloadError, match="RECORDZOO_MIRROR"):
        get(RemoteFile(NAME), tmp_path)


def test_offline_opens_no_socket(tmp_path: Path) -> None:
    hook = """
import sys
def hook(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        sys.exit(f"offline, and yet {event}")
sys.addaudithook(hook)
"""
    with serve() as server:
        code, stderr = run_child(remote(server), tmp_path, hook, RECORDZOO_OFFLINE="1")
        assert code == 1
        for part in ("DownloadError", "RECORDZOO_OFFLINE", str(tmp_path / NAME), "1 MB", f"{server.url}/{NAME}"):
            assert part in stderr
        assert "and yet" in run_child(remote(server), tmp_path, hook)[1]
        (tmp_path / NAME).write_bytes(DATA)
        assert run_child(remote(server), tmp_path, hook, RECORDZOO_OFFLINE="1") == (0, "")
    assert server.log == []
