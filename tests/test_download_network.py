"""What lies between this machine and the file: redirects, certificates, proxies, mirrors, slow lines, Drive's pages."""

import base64
import datetime
import ipaddress
import itertools
import re
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from recordzoo.errors import DownloadError, HashMismatchError, TermsError
from recordzoo.net import http as answer
from recordzoo.net.url import RemoteFile
from tests.downloading import (
    CHUNK,
    DATA,
    NAME,
    OTHER,
    PAGE,
    Recorder,
    files,
    get,
    quick,  # noqa: F401 - a fixture
    remote,
    run_child,
    serve,
    serve_always,
)
from tests.fakes.proxy import Proxy
from tests.fakes.server import Fault, FileServer

# Redirects


def test_redirects_are_followed(tmp_path: Path) -> None:
    hops = {f"hop{i}": [Fault(location=f"/hop{i + 1}")] for i in range(4)}
    with FileServer({NAME: DATA}, {NAME: [Fault(location="/hop0")], **hops, "hop4": [Fault(body=DATA)]}) as server:
        assert get(remote(server), tmp_path).read_bytes() == DATA
    assert [request.path for request in server.log] == [NAME, "hop0", "hop1", "hop2", "hop3", "hop4"]


def test_the_body_of_a_redirect_is_not_waited_for(tmp_path: Path) -> None:
    endless = Fault(raw=b"HTTP/1.1 302 Found\r\nLocation: /there\r\n\r\n", raw_trickle_s=0.01)
    with FileServer({"there": DATA}, {NAME: [endless]}) as server:
        assert get(remote(server), tmp_path).read_bytes() == DATA


def test_a_redirected_download_resumes_by_its_first_address(tmp_path: Path) -> None:
    faults = {NAME: itertools.repeat(Fault(location="/store?signature=1")), "store": [Fault(drop_after=1000)]}
    with FileServer({"store": DATA}, faults) as server:
        assert get(remote(server, sha256=None), tmp_path).read_bytes() == DATA
    assert server.sent("store") == len(DATA)


@pytest.mark.parametrize(
    ("location", "message"),
    [
        (f"/{NAME}", "Exceeded 5 redirects"),
        ("/hop0", "Exceeded 5 redirects"),
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


# Certificates


def certificate(folder: Path, host: str = "127.0.0.1", days: tuple[int, int] = (-1, 1)) -> tuple[ssl.SSLContext, Path]:
    """Make a server's context with a certificate for a host and days from today, and the file that a client trusts."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now + datetime.timedelta(days=days[0]))
        .not_valid_after(now + datetime.timedelta(days=days[1]))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    path, secret = folder / "certificate.pem", folder / "key.pem"
    path.write_bytes(made.public_bytes(encoding))
    secret.write_bytes(key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path, secret)
    return context, path


@pytest.fixture
def tls(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """A server's context with which all is well."""
    context, path = certificate(tmp_path_factory.mktemp("tls"))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(path))
    return context


def test_https_never_goes_to_http(tmp_path: Path, tls: ssl.SSLContext) -> None:
    with serve() as plain:
        faults = {NAME: [Fault(drop_after=1000)], "down": [Fault(location=f"{plain.url}/{NAME}")]}
        with FileServer({NAME: DATA}, faults, tls) as secure:
            with pytest.raises(DownloadError, match=r"from https only https is followed"):
                get(remote(urls=(f"{secure.url}/down",)), tmp_path)
            assert get(remote(secure), tmp_path).read_bytes() == DATA
        assert plain.log == []


@pytest.mark.parametrize(
    ("facts", "trusted", "message"),
    [
        ({"days": (-2, -1)}, True, "certificate has expired"),
        ({"host": "127.0.0.2"}, True, r"certificate is not valid for '127\.0\.0\.1'"),
        ({}, False, "self.signed certificate"),
    ],
)
def test_a_certificate_that_is_not_valid_is_named_and_not_worked_around(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, facts: dict[str, Any], trusted: bool, message: str
) -> None:
    context, path = certificate(tmp_path, **facts)
    if trusted:
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(path))
    recorder = Recorder()
    said = rf"the certificate of 127\.0\.0\.1:\d+ is not .*{message}"
    with FileServer({NAME: DATA}, tls=context) as secure, pytest.raises(DownloadError, match=said) as error:
        get(remote(secure), tmp_path / "data", progress=recorder)
    assert "REQUESTS_CA_BUNDLE" in str(error.value)
    assert "clock" in str(error.value)
    assert secure.log == []
    assert recorder.notes == []  # it was asked once
    assert files(tmp_path / "data") == set()


# Proxies


@pytest.mark.parametrize("is_excepted", [False, True])
def test_a_proxy_is_used_and_knows_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_excepted: bool) -> None:
    with Proxy() as proxy, serve(Fault(drop_after=1000)) as server:
        monkeypatch.setenv("http_proxy", proxy.url)
        if is_excepted:
            monkeypatch.setenv("NO_PROXY", "elsewhere.example,127.0.0.1")
        assert get(remote(server), tmp_path).read_bytes() == DATA
    assert proxy.log == ([] if is_excepted else [("GET", f"{server.url}/{NAME}")] * 2)
    assert [request.range for request in server.log] == [None, "bytes=1000-"]


@pytest.mark.parametrize("secure", [False, True])
def test_a_proxy_that_wants_a_login(
    tmp_path: Path, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, secure: bool
) -> None:
    variable = "HTTPS_PROXY" if secure else "HTTP_PROXY"
    with Proxy(login="me:secret") as proxy, FileServer({NAME: DATA}, tls=tls if secure else None) as server:
        monkeypatch.setenv(variable, proxy.url.replace("//", "//me:guessed@"))
        with pytest.raises(DownloadError, match=r"answered 407 Proxy Authentication Required.*HTTPS_PROXY=") as error:
            get(remote(server), tmp_path)
        assert "guessed" not in str(error.value)
        assert error.value.status == 407
        assert len(proxy.log) == 1  # the same login will not do the next time
        assert server.log == []
        monkeypatch.setenv(variable, proxy.url.replace("//", "//me:secret@"))
        assert get(remote(server), tmp_path).read_bytes() == DATA


@pytest.mark.parametrize(("status", "attempts"), [(403, 1), (502, 5)])
def test_a_proxy_that_refuses_a_tunnel(
    tmp_path: Path, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, status: int, attempts: int
) -> None:
    with Proxy(refusal=status) as proxy, FileServer({NAME: DATA}, tls=tls) as server:
        monkeypatch.setenv("https_proxy", proxy.url)
        with pytest.raises(DownloadError, match=f"the proxy {proxy.url.removeprefix('http://')} .*{status}"):
            get(remote(server), tmp_path)
    assert len(proxy.log) == attempts
    assert server.log == []


@pytest.mark.parametrize("secure", [False, True])
def test_an_unreachable_proxy_is_named_and_not_the_host_called_dead(
    tmp_path: Path, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, secure: bool
) -> None:
    with Proxy() as gone:
        pass
    with FileServer({NAME: DATA}, tls=tls if secure else None) as server:
        monkeypatch.setenv("all_proxy", gone.url.replace("//", "//me:secret@"))
        with pytest.raises(DownloadError, match=r"through the proxy .*Connection refused") as error:
            get(remote(server), tmp_path)
    assert f"through the proxy {gone.url.removeprefix('http://')} (" in str(error.value)
    assert "secret" not in str(error.value)
    assert server.log == []


# Logins


def leaked(folder: Path, error: BaseException | None, recorder: Recorder) -> list[str]:
    """Return the texts that a person, a log or another user of the machine sees and that tell a secret."""
    texts = [path.read_text(errors="replace") for path in folder.rglob("*") if path.suffix == ".json"]
    texts += recorder.notes
    while error is not None:  # what a traceback shows
        texts += [str(error), repr(getattr(error, "details", ""))]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return [text for text in texts if "secret" in text]


def logins(server: FileServer) -> list[str | None]:
    found = [request.headers.get("Authorization") for request in server.log]
    return [base64.b64decode(text.removeprefix("Basic ")).decode() if text else None for text in found]


@pytest.mark.parametrize(
    ("login", "sent"),
    [
        ("me:secret", "me:secret"),
        ("me:a:%2Fsecret%40home%C3%A9", "me:a:/secret@homeé"),
        ("secret", "secret:"),
        ("me:se/#?secret", "me:se/#?secret"),  # not quoted as it should be
        ("me:secreté", "me:secreté"),
    ],
)
@pytest.mark.parametrize(
    "faults",
    [
        [Fault(drop_after=2 * CHUNK), Fault(status=404)],
        [Fault(drop_after=2 * CHUNK), *[Fault(status=503)] * 5],
        [Fault(body=OTHER), Fault(body=OTHER)],
        [Fault(extra=b"more"), Fault(extra=b"more")],
        [Fault(body=PAGE)],
        [Fault(encoding="gzip")],
        [Fault(location="ftp://you:secret@127.0.0.1/a")],
    ],
    ids=["404", "503", "hash", "size", "page", "encoding", "redirect"],
)
def test_a_password_is_sent_and_never_shown(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    login: str,
    sent: str,
    faults: list[Fault],
) -> None:
    recorder = Recorder()
    path = f"birds/{NAME}"
    with FileServer({path: DATA}, {path: faults}) as mirror, serve(Fault(status=404)) as server:
        monkeypatch.setenv("RECORDZOO_MIRROR", mirror.url.replace("//", f"//{login}@"))
        with pytest.raises((DownloadError, HashMismatchError)) as error:
            get(remote(server), tmp_path, progress=recorder)
        assert set(logins(mirror)) == {sent}
        assert logins(server) == [None]
    assert f"{mirror.url}/{path}" in str(error.value)
    assert leaked(tmp_path, error.value, recorder) == []
    assert "secret" not in caplog.text


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_password_follows_redirects_on_its_own_host_only(tmp_path: Path, elsewhere: bool) -> None:
    locations: list[Fault] = []
    with FileServer({"there": DATA}) as other, FileServer({"there": DATA}, {NAME: locations}) as server:
        locations.append(Fault(location=f"{(other if elsewhere else server).url}/there"))
        get(remote(urls=(f"{server.url}/{NAME}".replace("//", "//me:secret@"),)), tmp_path)
        assert logins(server) == ["me:secret"] * (1 if elsewhere else 2)
        assert logins(other) == ([None] if elsewhere else [])


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("", "ftp://me:secret@127.0.0.1/a", "cannot be asked for"),
        ("", "http://me:secret@", "cannot be asked for"),
        ("", "http://me:secret@[/a", "cannot be asked for"),
        ("http_proxy", "http://me:secret@[", NAME),
        ("http_proxy", "http://me:se/secret@127.0.0.1:9", NAME),
        ("http_proxy", "me:secret@127.0.0.1:9", NAME),
        ("RECORDZOO_MIRROR", "http://me:secret@127.0.0.1/a", r"from http://127\.0\.0\.1/a/birds/"),
    ],
)
def test_addresses_are_named_without_their_passwords(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    recorder = Recorder()
    if variable:
        monkeypatch.setenv(variable, value)
    if variable == "RECORDZOO_MIRROR":
        monkeypatch.setenv("RECORDZOO_OFFLINE", "1")
    with serve() as server, pytest.raises(DownloadError, match=message) as error:
        get(remote(server) if variable else RemoteFile(NAME, (value,)), tmp_path, progress=recorder)
    assert leaked(tmp_path, error.value, recorder) == []


# Slow lines


@pytest.mark.slow
def test_a_server_that_stays_silent_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECORDZOO_TIMEOUT", "0.2")
    with serve(Fault(stall_after=CHUNK + 100), *[Fault(mute=True)] * 5) as server:
        with pytest.raises(DownloadError, match=r"did not answer for 0\.2 s; 5 attempts in a row failed"):
            get(remote(server), tmp_path)
        assert len(server.log) == 6
        assert (tmp_path / f"{NAME}.part").read_bytes() == DATA[: CHUNK + 100]
        assert get(remote(server), tmp_path).read_bytes() == DATA


@pytest.mark.slow
@pytest.mark.parametrize("length", ["", "chunked"])
def test_a_server_that_trickles_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: str) -> None:
    monkeypatch.setenv("RECORDZOO_TIMEOUT", "0.3")
    monkeypatch.setenv("RECORDZOO_MIN_SPEED", "1000")
    recorder = Recorder()
    slow = Fault(trickle_s=0.01, stall_after=10, length=length)
    with serve_always(slow) as server:
        with pytest.raises(DownloadError, match=r"in 0\.3 s; RECORDZOO_MIN_SPEED asks for 300 B; 5 attempts .* kept"):
            get(remote(server), tmp_path, progress=recorder)
        assert len(server.log) == 5
    kept = (tmp_path / f"{NAME}.part").read_bytes()
    assert kept == DATA[: len(kept)]
    assert len(kept) > 5 * 10


def test_the_rest_of_a_trickle_comes_from_the_next_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECORDZOO_TIMEOUT", "0.3")
    monkeypatch.setenv("RECORDZOO_MIN_SPEED", "1000")
    with serve(Fault(trickle_s=0.01, stall_after=2 * CHUNK)) as server:
        assert get(remote(server), tmp_path).read_bytes() == DATA
    _, second = server.log
    assert second.range == f"bytes={len(DATA) - second.sent}-"
    assert 2 * CHUNK < len(DATA) - second.sent < 3 * CHUNK


def feed(monkeypatch: pytest.MonkeyPatch, *seconds: tuple[float, int]) -> list[int | None]:
    """Say after each receiving, of so many seconds and bytes, what the pace is; the clock is the test's."""
    now = [0.0]
    monkeypatch.setattr(answer.time, "monotonic", lambda: now[0])
    pace = answer.Pace()
    found = []
    for waited_s, num_bytes in seconds:
        now[0] += 1000  # what happens between two receivings does not count
        with pace:
            now[0] += waited_s
        found.append(pace.too_few(num_bytes))
    return found


def test_a_slow_line_is_not_called_slow_where_it_is_honest(monkeypatch: pytest.MonkeyPatch) -> None:
    assert feed(monkeypatch, (10, 1000), (10, 1000), (10, 1000)) == [None] * 3  # as slow as may be
    assert feed(monkeypatch, (10, 1000), (10, 1000), (10, 999)) == [None, None, 2999]
    # what came long ago does not help
    assert feed(monkeypatch, (0, 1 << 30), (29, 1), (29, 1), (29, 1), (2, 1)) == [None] * 4 + [2]
    for variable in ("RECORDZOO_TIMEOUT", "RECORDZOO_MIN_SPEED"):
        with monkeypatch.context() as any_speed:
            any_speed.setenv(variable, "0")
            assert feed(any_speed, *[(100, 1)] * 9) == [None] * 9


# Several addresses


def test_the_mirror_is_asked_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FileServer({f"base/birds/{NAME}": DATA, f"env/birds/{NAME}": DATA}) as mirror, serve() as server:
        get(remote(server), tmp_path / "1", mirror=f"{mirror.url}/base/")
        monkeypatch.setenv("RECORDZOO_MIRROR", f"{mirror.url}/env")
        get(remote(server), tmp_path / "2")
        get(remote(server), tmp_path / "3", mirror=f"{mirror.url}/base")
    assert [request.path for request in mirror.log] == [f"{where}/birds/{NAME}" for where in ("base", "env", "base")]
    assert server.log == []


@pytest.mark.parametrize(("is_known", "asked"), [(True, "bytes=5000-"), (False, None)])
def test_the_next_address_goes_on_where_the_first_one_failed_if_the_hash_is_known(
    tmp_path: Path, is_known: bool, asked: str | None
) -> None:
    begun = Fault(body=DATA if is_known else OTHER, drop_after=5000)
    with serve(begun, Fault(status=404)) as first, serve() as second:
        file = remote(first, second, **({} if is_known else {"sha256": None}))
        assert get(file, tmp_path).read_bytes() == DATA
    assert (second.log[0].range, second.log[0].if_range) == (asked, None)
    assert second.sent(NAME) == len(DATA) - (5000 if is_known else 0)


def test_a_dead_mirror_and_a_corrupt_one_give_way_to_a_good_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serve() as dead:
        pass
    damaged = DATA[:700_000] + bytes([DATA[700_000] ^ 1]) + DATA[700_001:]
    with serve(data=damaged) as corrupt, serve() as good:
        file = remote(corrupt, good)
        assert get(file, tmp_path, mirror=dead.url, progress=Recorder()).read_bytes() == DATA
    first, second = caplog.messages
    assert f"{dead.url}/birds/{NAME}: no connection to " in first
    assert f"{NAME} from {corrupt.url}/{NAME} is not the expected file" in second
    assert good.sent(NAME) == len(DATA)
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
        file = remote(server, needs_terms=True, instructions="1. Sign up.\n2. Put it into {folder}")
        with pytest.raises(TermsError, match=rf"^1\. Sign up\.\n2\. Put it into {tmp_path}/data\n") as error:
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
import recordzoo.net.download  # urllib3 looks for IPv6 when it is imported, with a socket that it does not connect
def hook(event, args):
    if event.startswith("socket."):
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


# Google Drive: the question before a large file is answered, and a refusal is named

FIELDS = "id=1AbC&export=download&confirm=t&uuid=c0ffee-1"
_HEAD = '<!DOCTYPE html><html><head><title>Google Drive - {}</title><meta http-equiv="content-type"/></head><body>'
QUESTION = (
    _HEAD.format("Virus scan warning")
    + '<form id="search" action="/search"><input type="hidden" name="q" value="no"></form>'
    + '<form id="download-form" action="{action}" method="get"><input type="submit" id="uc-download-link" value="Go"/>'
    + re.sub(r"(\w+)=([\w-]+)&?", r'<input type="hidden" name="\1" value="\2">', FIELDS)
    + "</form></body></html>"
)


def drive(text: str) -> FileServer:
    """Serve a page at /uc, however often it is asked for, and the file at /download, where its form leads to."""
    server = FileServer({"download": DATA})
    body = text.replace("{action}", f"{server.url}/download").encode()
    server.fail("uc", itertools.repeat(Fault(body=body, content_type="text/html; charset=utf-8", ignore_range=True)))
    return server


def shared(server: FileServer) -> RemoteFile:
    return remote(urls=(f"{server.url}/uc?id=1AbC&export=download",))


def test_the_question_before_a_large_file_is_answered(tmp_path: Path) -> None:
    with drive(QUESTION) as server:
        assert get(shared(server), tmp_path).read_bytes() == DATA
        asked = [(request.path, request.query) for request in server.log]
    assert asked == [("uc", "id=1AbC&export=download"), ("download", FIELDS)]


def test_a_download_from_drive_is_resumed(tmp_path: Path) -> None:
    with drive(QUESTION) as server:
        server.fail("download", [Fault(drop_after=5000)])
        assert get(shared(server), tmp_path).read_bytes() == DATA
        assert server.sent("download") == len(DATA)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (QUESTION.replace("{action}", "/uc"), "a web page titled"),  # a question that leads to itself
        (_HEAD.format("Quota exceeded"), "a web page titled 'Google Drive - Quota exceeded' instead of"),
    ],
)
def test_a_refusal_is_named(tmp_path: Path, text: str, said: str) -> None:
    with drive(text) as server, pytest.raises(DownloadError, match=said):
        get(shared(server), tmp_path)
    assert files(tmp_path) == set()
