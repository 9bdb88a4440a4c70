"""A real file server on the loopback interface that can fail in every way a host on the internet does.

    with FileServer({"a.tgz": data}, {"a.tgz": [Fault(drop_after=1000)]}) as server:
        ...  # the first answer breaks after 1,000 bytes, the later ones are whole
        assert server.sent("a.tgz") == len(data)

Each request for a path takes the next `Fault` from that path's list; when none is left, answers are what they should
be. ``itertools.repeat(Fault(...))`` never ends.
"""

import contextlib
import email.utils
import functools
import hashlib
import re
import socket
import ssl
import struct
import sys
import threading
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any, Self

LAST_MODIFIED = email.utils.formatdate(1_000_000_000, usegmt=True)
_CHUNK_BYTES = 16 << 10


@dataclass(frozen=True)
class Fault:
    """What is wrong with one answer; everything else about it is right."""

    status: int | None = None  # answer only this status, with an empty body
    retry_after: str | None = None  # the header
    location: str | None = None  # redirect there (302)
    body: bytes | None = None  # serve these bytes instead of the file's
    content_type: str = "application/octet-stream"
    headers: Mapping[str, str] = field(default_factory=dict)  # further ones
    etag: str | None = None  # "" for none; default: from the content
    last_modified: str = LAST_MODIFIED  # "" for none
    encoding: str | None = None  # the Content-Encoding header (the bytes stay as they are)
    length: str = ""  # "chunked" or "close" in place of Content-Length
    extra: bytes = b""  # more bytes after the right ones, promised by Content-Length
    missing: int = 0  # how many bytes fewer than promised are sent before the connection is closed
    drop_after: int | None = None  # close the connection after so many bytes of this answer's body
    reset: bool = False  # close it by RST instead of FIN: the client may lose what it had not read
    stall_after: int | None = None  # send so many bytes, then nothing until the client leaves or the server stops
    trickle_s: float = 0.0  # after `stall_after`, or from the first byte, send one byte and wait so long, repeatedly
    raw: bytes | None = None  # send these bytes instead of an answer, headers and all, and close the connection
    raw_trickle_s: float = 0.0  # do not close it, but send an "x" and wait so long, repeatedly
    mute: bool = False  # never answer, until the client leaves or the server stops
    ignore_range: bool = False  # answer 200 with the whole file whatever is asked
    ignore_if_range: bool = False  # answer 206 even if the file changed
    shift: int = 0  # answer a range so many bytes away from the one that is asked for
    content_range: str | None = None  # the header of a 206; "" for none
    unsatisfiable: bool = False  # answer 416 to every Range


@dataclass
class Request:
    """A line of the server's log."""

    method: str
    path: str
    headers: Mapping[str, str]
    query: str = ""
    status: int = 0
    sent: int = 0  # bytes of the body that went into the socket

    @property
    def range(self) -> str | None:
        return self.headers.get("Range")

    @property
    def if_range(self) -> str | None:
        return self.headers.get("If-Range")


class FileServer:
    """Serve a folder or a dictionary of path to bytes while the `with` block lasts."""

    def __init__(
        self,
        content: Mapping[str, bytes] | Path,
        faults: Mapping[str, Iterable[Fault]] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._content = content
        self._faults = {path: iter(list_) for path, list_ in (faults or {}).items()}
        self._lock = threading.Lock()
        self._http = Server(("127.0.0.1", 0), functools.partial(_Handler, self))
        if tls is not None:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._http.server_port}"
        self.log: list[Request] = []
        self.stalled = threading.Event()  # set when an answer has come to its `stall_after`
        self.stopping = self._http.stopping

    def __enter__(self) -> "FileServer":
        self._http.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.stop()

    def requests(self, path: str) -> list[Request]:
        """The requests for one path, in order."""
        return [request for request in self.log if request.path == path]

    def sent(self, path: str) -> int:
        """How many bytes of bodies were sent for a path."""
        return sum(request.sent for request in self.requests(path))

    def content(self, path: str) -> bytes | None:
        """The file's bytes; None if there is none."""
        if isinstance(self._content, Mapping):
            return self._content.get(path)
        file = (self._content / path).resolve()
        return file.read_bytes() if file.is_relative_to(self._content.resolve()) and file.is_file() else None

    def fail(self, path: str, faults: Iterable[Fault]) -> None:
        """Let the next answers for a path be these."""
        self._faults[path] = iter(faults)

    def next_fault(self, path: str) -> Fault:
        """The fault of the next answer."""
        with self._lock:
            return next(self._faults.get(path, iter(())), Fault())


class Server(ThreadingHTTPServer):
    """Keeps the errors of its threads, so that a broken fake fails its test; clients that leave are no error."""

    def __init__(self, *args: Any) -> None:
        self.errors: list[BaseException] = []
        self.stopping = threading.Event()
        super().__init__(*args)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)

    def start(self) -> None:
        """Answer requests, in threads."""
        self._thread.start()

    def stop(self) -> None:
        """End, and raise the first error of a thread; handlers that wait for `stopping` go on."""
        self.stopping.set()
        self.shutdown()
        self._thread.join()
        self.server_close()
        if self.errors:
            raise self.errors[0]

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exception()
        if error is not None and not isinstance(error, OSError):
            self.errors.append(error)


class Answering:
    """A server on the loopback interface that answers every request with `answer`, which a subclass has."""

    def __init__(self) -> None:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                owner.answer(self)

            do_GET = do_HEAD = do_POST = do_PUT = answer

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._server.stop()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        raise NotImplementedError


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wfile: IO[bytes]  # type: ignore[assignment]  # typeshed names a class that socketserver does not use

    def __init__(self, owner: FileServer, *args: Any) -> None:
        self.owner = owner
        super().__init__(*args)

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        parts = urllib.parse.urlsplit(self.path)
        path = urllib.parse.unquote(parts.path).lstrip("/")
        request = Request(self.command, path, dict(self.headers.items()), parts.query)
        self.owner.log.append(request)
        fault = self.owner.next_fault(path)
        data = fault.body if fault.body is not None else self.owner.content(path)
        if fault.mute:
            self.close_connection = True
            self._stall()
        elif fault.raw is not None:
            self._raw(fault.raw, fault.raw_trickle_s)
        elif fault.location is not None:
            self._empty(request, 302, {"Location": fault.location, **fault.headers})
        elif fault.status is not None or data is None:
            wait = {} if fault.retry_after is None else {"Retry-After": fault.retry_after}
            self._empty(request, fault.status or 404, {**wait, **fault.headers})
        else:
            self._file(request, fault, data)

    def _raw(self, data: bytes, trickle_s: float) -> None:
        self.close_connection = True
        with contextlib.suppress(ConnectionError):
            self.wfile.write(data)
            while trickle_s and not self.owner.stopping.wait(trickle_s):
                self.wfile.write(b"x")

    def _empty(self, request: Request, status: int, headers: Mapping[str, str]) -> None:
        request.status = status
        self.send_response(status)
        for name, value in {"Content-Length": "0", **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _file(self, request: Request, fault: Fault, data: bytes) -> None:
        etag = f'"{hashlib.md5(data).hexdigest()}"' if fault.etag is None else fault.etag
        start = self._start(request, fault, etag)
        if start is not None and (start >= len(data) or fault.unsatisfiable):
            self._empty(request, 416, {"Content-Range": f"bytes */{len(data)}"})
            return
        last = len(data) - 1
        headers = {"Accept-Ranges": "bytes", "Content-Type": fault.content_type, **fault.headers}
        headers |= {"ETag": etag} if etag else {}
        headers |= {"Last-Modified": fault.last_modified} if fault.last_modified else {}
        headers |= {"Content-Encoding": fault.encoding} if fault.encoding else {}
        if start is not None:
            start += fault.shift
            last = min(int((request.range or "").rpartition("-")[2] or len(data)), len(data) - 1)
            headers["Content-Range"] = f"bytes {start}-{last}/{len(data)}"
            headers |= {} if fault.content_range is None else {"Content-Range": fault.content_range}
        body = data[start or 0 : last + 1] + fault.extra
        if fault.length == "chunked":
            headers["Transfer-Encoding"] = "chunked"
        elif not fault.length:
            headers["Content-Length"] = str(len(body))
        request.status = 200 if start is None else 206
        self.send_response(request.status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            with contextlib.suppress(ConnectionError):
                self._send(request, fault, body)

    def _start(self, request: Request, fault: Fault, etag: str) -> int | None:
        """Where the answer starts; None for the whole file by a 200."""
        match = re.fullmatch(r"bytes=(\d+)-\d*", request.range or "")
        if not match or fault.ignore_range:
            return None
        changed = request.if_range is not None and request.if_range not in (etag, fault.last_modified)
        return None if changed and not fault.ignore_if_range else int(match[1])

    def _send(self, request: Request, fault: Fault, body: bytes) -> None:
        stall_after = 0 if fault.trickle_s and fault.stall_after is None else fault.stall_after
        limits = [fault.drop_after, stall_after, len(body) - fault.missing]
        limit = min(limit for limit in limits if limit is not None)
        chunked = fault.length == "chunked"
        for piece in _pieces(body[:limit]):
            self._send_piece(request, piece, chunked)
        if fault.trickle_s:
            for i in range(limit, len(body)):
                if self.owner.stopping.wait(fault.trickle_s):
                    break
                self._send_piece(request, body[i : i + 1], chunked)
        elif stall_after is not None and limit == stall_after:
            self._stall()
        elif limit == len(body) and fault.drop_after is None:
            if chunked:
                self.wfile.write(b"0\r\n\r\n")
            self.close_connection = self.close_connection or bool(fault.length and not chunked)
            return
        self.close_connection = True
        if fault.reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()

    def _send_piece(self, request: Request, piece: bytes, chunked: bool) -> None:
        request.sent += len(piece)
        try:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        except ConnectionError:
            request.sent -= len(piece)
            raise

    def _stall(self) -> None:
        self.owner.stalled.set()
        self.connection.settimeout(0.05)
        while not self.owner.stopping.is_set():
            with contextlib.suppress(TimeoutError):
                if not self.connection.recv(1):
                    return


def _pieces(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), _CHUNK_BYTES):
        yield body[start : start + _CHUNK_BYTES]
