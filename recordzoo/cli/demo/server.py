"""The demo's file server, on the loopback interface."""

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

from typing_extensions import override


class DemoServer(ThreadingHTTPServer):
    """Serve one file while the `with` block lasts; the first answer stops after three fifths and sends no more.

    Attributes:
        url: Address of the file.
        held_at: After how many bytes the first answer stops.
        log: For each answer, its first byte and how many are sent.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.path = path
        self.url = f"http://127.0.0.1:{self.server_port}/{path.name}"
        self.size_bytes = path.stat().st_size
        self.held_at = self.size_bytes * 3 // 5
        self.log: list[tuple[int, int]] = []

    @override
    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    @override
    def __exit__(self, *exc: object) -> None:
        self.shutdown()
        self.server_close()

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that were killed."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: DemoServer

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Keep the terminal for the demo."""

    def do_GET(self) -> None:
        """Send the file, or the rest of it."""
        total = self.server.size_bytes
        end = total if self.server.log else self.server.held_at
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked else 0
        self.server.log.append((start, end - start))
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(total - start))
        self.send_header("ETag", '"demo"')
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
        self.end_headers()
        self.wfile.write(self.server.path.read_bytes()[start:end])
        if end < total:
            self.rfile.read(1)  # nothing comes: this waits until the client is gone
