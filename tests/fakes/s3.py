"""A real S3 server on the loopback interface (moto's, in a process of its own), behind a proxy that injects faults.

Tests take the fixture `s3`, which is a `Bucket` of one such server, with credentials and endpoint in the environment.
"""

import contextlib
import functools
import http.client
import itertools
import os
import re
import subprocess
import sys
import threading
import urllib.parse
import xml.etree.ElementTree
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import IO, Any

from tests.fakes.server import Server

ACCESS_KEY, SECRET_KEY, SESSION_TOKEN = "AKIARECORDZOOTEST", "a-secret/of+the-tests", "a-token/of+the-tests"
"""What must appear in no log, error, pickle or file."""

_SIGNED = f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/20260101/us-east-1/s3/aws4_request, Signature=0"
"""Moto reads the access key, and does not check the signature."""

_ROOT = Path(__file__).parent.parent.parent
_CHUNK_BYTES = 16 << 10
_HOP_BY_HOP = ("connection", "expect", "host", "keep-alive", "transfer-encoding")


@dataclass(frozen=True)
class Fault:
    """What is wrong with one answer; everything else about it is right."""

    status: int | None = None  # answer only this status, with S3's error document; the request is not passed on
    code: str = ""  # in that document; default: the usual one of the status
    drop_after: int | None = None  # close the connection after so many bytes of the body
    lost: bool = False  # pass the request on, and close the connection instead of answering
    headers: Mapping[str, str] = field(default_factory=dict)  # more of them


SLOW_DOWN = Fault(503, "SlowDown")
EXPIRED = Fault(403, "ExpiredToken")

_CODES = {403: "AccessDenied", 404: "NoSuchKey", 500: "InternalError", 503: "ServiceUnavailable"}


@dataclass
class Request:
    """A line of the proxy's log."""

    method: str
    path: str  # with the bucket, without the slash at the start; unquoted
    query: str
    headers: Mapping[str, str]
    sent: int = 0  # bytes of the answer's body that went into the socket

    @property
    def range(self) -> str | None:
        return self.headers.get("Range")


@dataclass
class _Rule:
    method: str
    pattern: re.Pattern[str]
    faults: Iterator[Fault]

    def next_fault(self, request: Request) -> Fault | None:
        if request.method != self.method or not self.pattern.search(f"{request.path}?{request.query}"):
            return None
        return next(self.faults, None)


class S3Server:
    """Serve S3 while the `with` block lasts."""

    def __init__(self) -> None:
        self.log: list[Request] = []
        self._rules: list[_Rule] = []
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._moto: subprocess.Popen[str] | None = None
        self._http = Server(("127.0.0.1", 0), functools.partial(_Handler, self))
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self.port = 0

    def __enter__(self) -> "S3Server":
        words = [sys.executable, "-m", "tests.fakes.s3"]
        environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
        self._moto = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=_ROOT, text=True
        )
        assert self._moto.stdout is not None
        self.port = int(self._moto.stdout.readline())
        self._http.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._moto is not None
        self._moto.kill()
        self._moto.communicate()
        self._http.stop()

    def new_bucket(self) -> str:
        """Create an empty bucket, and return its name."""
        name = f"bucket-{next(self._numbers)}"
        self.ask("PUT", name)
        return name

    def ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """Ask moto itself; neither faults nor the log have a part in this."""
        path, _, query = path.partition("?")
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port)) as host:
            address = f"/{urllib.parse.quote(path)}{'?' if query else ''}{query}"
            host.request(method, address, body, {"Authorization": _SIGNED})
            answer = host.getresponse()
            data = answer.read()
        if answer.status >= 300:
            raise KeyError(f"{method} {path}: {answer.status} {data!r}")
        return data

    def fail(self, method: str, pattern: str, fault: Fault, *, times: int | None = 1) -> None:
        """Let the next `times` requests of a method (None: all) fail whose "bucket/key?query" holds a pattern."""
        faults = itertools.repeat(fault) if times is None else itertools.repeat(fault, times)
        with self._lock:
            self._rules.append(_Rule(method, re.compile(pattern), faults))

    def forget(self) -> None:
        """Drop all faults and the log."""
        with self._lock:
            self._rules.clear()
            self.log.clear()

    def next_fault(self, request: Request) -> Fault:
        """The fault of the answer to a request: of the first rule that has one."""
        with self._lock:
            found = (rule.next_fault(request) for rule in self._rules)
            return next((fault for fault in found if fault is not None), Fault())

    def requests(self, pattern: str, method: str = "") -> list[Request]:
        """The requests, of a method, whose path and query hold a regular expression, in order."""
        return [
            each
            for each in list(self.log)
            if method in ("", each.method) and re.search(pattern, f"{each.path}?{each.query}")
        ]


@dataclass(frozen=True)
class Bucket:
    """A bucket of a server; what the fixture `s3` gives."""

    server: S3Server
    name: str

    @property
    def url(self) -> str:
        return f"s3://{self.name}"

    def put(self, key: str, data: bytes) -> None:
        self.server.ask("PUT", f"{self.name}/{key}", data)

    def get(self, key: str) -> bytes:
        return self.server.ask("GET", f"{self.name}/{key}")

    def delete(self, key: str) -> None:
        self.server.ask("DELETE", f"{self.name}/{key}")

    def keys(self) -> list[str]:
        """List the objects, sorted; at most 1,000."""
        found = xml.etree.ElementTree.fromstring(self.server.ask("GET", f"{self.name}?list-type=2"))
        return sorted(each.text or "" for each in found.iterfind("{*}Contents/{*}Key"))

    def put_folder(self, folder: Path, key: str) -> None:
        """Store the files of a folder as `key`/name, each with a request of its own."""
        for path in sorted(folder.iterdir()):
            self.put(f"{key}/{path.name}", path.read_bytes())


def environment(endpoint: str) -> dict[str, str]:
    """Return the variables with which a client of S3 finds the server, and nothing of the machine's own."""
    return {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_SESSION_TOKEN": SESSION_TOKEN,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wfile: IO[bytes]  # type: ignore[assignment]  # typeshed names a class that socketserver does not use

    def __init__(self, owner: S3Server, *args: Any) -> None:
        self.owner = owner
        self.host = http.client.HTTPConnection("127.0.0.1", owner.port)
        with contextlib.closing(self.host):
            super().__init__(*args)

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _handle(self) -> None:
        body = self._body()
        parts = urllib.parse.urlsplit(self.path)
        path = urllib.parse.unquote(parts.path).lstrip("/")
        request = Request(self.command, path, parts.query, self.headers)
        self.owner.log.append(request)
        fault = self.owner.next_fault(request)
        if fault.status is not None:
            self._refuse(request, fault.status, fault.code or _CODES[fault.status])
        else:
            self._pass_on(request, fault, body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _handle

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():  # trailers
            pass
        return b"".join(parts)

    def _refuse(self, request: Request, status: int, code: str) -> None:
        body = f"<Error><Code>{code}</Code><Message>{code}, as injected</Message><RequestId>1</RequestId></Error>"
        self._answer(request, Fault(), status, {"Content-Type": "application/xml"}, body.encode())

    def _pass_on(self, request: Request, fault: Fault, body: bytes) -> None:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_BY_HOP}
        headers["Content-Length"] = str(len(body))
        self.host.request(self.command, self.path, body, headers)
        answer = self.host.getresponse()
        data = answer.read()
        if fault.lost:
            self.close_connection = True
            return
        kept = {name: value for name, value in answer.getheaders() if name.lower() not in _HOP_BY_HOP}
        self._answer(request, fault, answer.status, {**kept, **fault.headers}, data)

    def _answer(self, request: Request, fault: Fault, status: int, headers: dict[str, str], body: bytes) -> None:
        if self.command != "HEAD":  # its answer has the length of a body that is not sent
            headers = {name: value for name, value in headers.items() if name.lower() != "content-length"}
            headers["Content-Length"] = str(len(body))
        with contextlib.suppress(ConnectionError):
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self._send(request, fault, body)

    def _send(self, request: Request, fault: Fault, body: bytes) -> None:
        limit = len(body) if fault.drop_after is None else fault.drop_after
        for start in range(0, limit, _CHUNK_BYTES):
            piece = body[start : min(limit, start + _CHUNK_BYTES)]
            self.wfile.write(piece)
            request.sent += len(piece)
        self.close_connection = self.close_connection or fault.drop_after is not None


def _serve() -> None:
    """Run moto's server: print its port; serve until stdin ends, as it does when the tests are killed."""
    from moto.moto_server.werkzeug_app import create_backend_app
    from werkzeug.serving import make_server

    server = make_server("127.0.0.1", 0, create_backend_app("s3"), threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    import logging

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    _serve()
