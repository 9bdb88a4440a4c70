"""A file server on the loopback interface that can be told to stop in the middle, and keeps a log."""

import functools
import re
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_CHUNK_BYTES = 64 << 10


@dataclass
class Answer:
    """A line of the log: from which byte a file was asked for, and how many were sent."""

    start: int
    sent_bytes: int = 0


class DemoServer:
    """Serve one file while the `with` block lasts; the first answer stops after `hold_after` bytes and sends no more.

    Attributes:
        url: The file's address.
        log: The answers so far.
        holding: Set when the first answer has stopped.
    """

    def __init__(self, path: Path, hold_after: int) -> None:
        self.path = path
        self.hold_after = hold_after
        self.log: list[Answer] = []
        self.holding = threading.Event()
        self.closing = threading.Event()
        self._http = _Server(("127.0.0.1", 0), functools.partial(_Handler, self))
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self.url = f"http://127.0.0.1:{self._http.server_port}/{path.name}"

    def __enter__(self) -> "DemoServer":
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that were killed."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, demo: DemoServer, *args: Any) -> None:  # Any: what socketserver passes on
        self.demo = demo
        super().__init__(*args)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the terminal for the demo."""

    def do_GET(self) -> None:
        """Answer with the file, or with the rest of it."""
        total = self.demo.path.stat().st_size
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked else 0
        answer = Answer(start)
        self.demo.log.append(answer)
        self.send_response(206 if asked else 200)
        self.send_header("Content-Type", "application/gzip")
        self.send_header("Content-Length", str(total - start))
        self.send_header("ETag", '"demo"')
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
        self.end_headers()
        end = self.demo.hold_after if len(self.demo.log) == 1 else total
        with self.demo.path.open("rb") as file:
            file.seek(start)
            while file.tell() < end:
                piece = file.read(min(_CHUNK_BYTES, end - file.tell()))
                self.wfile.write(piece)
                answer.sent_bytes += len(piece)
        if end < total:
            self.demo.holding.set()
            self.demo.closing.wait()
            self.close_connection = True
