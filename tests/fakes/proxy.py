"""A real HTTP proxy on the loopback interface: it asks the host itself, or tunnels to it, as proxies do.

with Proxy() as proxy:
    monkeypatch.setenv("http_proxy", proxy.url)
"""

import base64
import contextlib
import functools
import http.client
import select
import socket
import urllib.parse
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.fakes.server import Server

_BYTES = 64 << 10


class Proxy:
    """Pass on what it is asked for while the `with` block lasts.

    `login` is the "user:password" that it wants; every CONNECT is answered with the status `refusal`, if there is one.
    """

    def __init__(self, *, login: str = "", refusal: int = 0) -> None:
        self.wanted = f"Basic {base64.b64encode(login.encode()).decode()}" if login else None
        self.refusal = refusal
        self.log: list[tuple[str, str]] = []  # ("GET", "http://..."), ("CONNECT", "host:port")
        self._http = Server(("127.0.0.1", 0), functools.partial(_Handler, self))
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> "Proxy":
        self._http.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.stop()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, owner: Proxy, *args: Any) -> None:
        self.owner = owner
        super().__init__(*args)

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        if not self._may():
            return
        parts = urllib.parse.urlsplit(self.path)
        headers = {name: value for name, value in self.headers.items() if not name.lower().startswith("proxy-")}
        host = http.client.HTTPConnection(parts.netloc)
        with contextlib.closing(host):
            host.request("GET", parts.path, headers=headers)
            answer = host.getresponse()
            try:
                body = answer.read()
            except http.client.IncompleteRead as err:  # the host left; so does the proxy
                body = err.partial
                self.close_connection = True
            self._answer(answer.status, dict(answer.getheaders()), body)

    def do_CONNECT(self) -> None:
        self.close_connection = True
        if not self._may():
            return
        if self.owner.refusal:
            self._answer(self.owner.refusal, {}, b"")
            return
        name, _, port = self.path.rpartition(":")
        with socket.create_connection((name, int(port))) as host:
            self.send_response(200)
            self.end_headers()
            _tunnel(self.connection, host)

    def _may(self) -> bool:
        self.owner.log.append((self.command, self.path))
        if self.owner.wanted in (None, self.headers.get("Proxy-Authorization")):
            return True
        self._answer(407, {"Proxy-Authenticate": "Basic"}, b"")
        return False

    def _answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _tunnel(first: socket.socket, second: socket.socket) -> None:
    """Carry bytes both ways until one side ends."""
    other = {first: second, second: first}
    while True:
        for each in select.select([first, second], [], [])[0]:
            data = each.recv(_BYTES)
            if not data:
                return
            other[each].sendall(data)
