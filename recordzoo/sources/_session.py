"""An HTTP session that measures each receive: requests itself limits only how long a server is silent between two."""

import http.client
import io
import time
from collections.abc import Generator
from typing import Any

import requests
import requests.adapters
import urllib3

from recordzoo import settings
from recordzoo.sources._pace import Pace, SlowHeadersError, TooSlowError


def new_session() -> requests.Session:
    """Make a session whose connections raise `SlowHeadersError` and `TooSlowError`."""
    session = _Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, _Adapter())
    return session


class _Session(requests.Session):
    def resolve_redirects(self, *_args: Any, **_kwargs: Any) -> Generator[requests.Response]:  # Any: not looked at
        """Return nothing: `_http` follows redirects, and requests would read the body of each, however long it is."""
        yield from ()


class _Stream(io.RawIOBase):
    """What a connection receives.

    The headers of an answer may take `RECORDZOO_TIMEOUT` after their first byte; the body must keep its `Pace`. An
    error is raised by the next read, so that no byte is lost.
    """

    def __init__(self, raw: io.RawIOBase) -> None:
        self._raw = raw
        self._timeout_s = settings.timeout_s()
        self.num_bytes = 0
        self._headers_began: float | None = None
        self._pace: Pace | None = None
        self._error: OSError | None = None

    def begin_body(self, num_bytes: int) -> None:
        """Go on to the body: its pace is measured from here; its first bytes came with the headers."""
        self._pace = Pace()
        self._pace.too_few(num_bytes)
        self._error = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # Any: a buffer, which Python 3.11 has no type for
        if self._error is not None:
            raise self._error
        if self._pace is None:
            num_bytes = self._raw.readinto(buffer) or 0
            self._check_headers()
        else:
            with self._pace:
                num_bytes = self._raw.readinto(buffer) or 0
            too_few = self._pace.too_few(num_bytes)
            self._error = None if too_few is None else TooSlowError(too_few, self._pace)
        self.num_bytes += num_bytes
        return num_bytes

    def _check_headers(self) -> None:
        now = time.monotonic()
        if self._headers_began is None:
            self._headers_began = now
        elif self._timeout_s and now - self._headers_began > self._timeout_s:
            self._error = SlowHeadersError(self._timeout_s)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Reader(io.BufferedReader):
    """Counts the bytes of the lines that are read: those of the headers."""

    line_bytes = 0

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        self.line_bytes += len(line)
        return line


class _Response(http.client.HTTPResponse):
    def __init__(self, *args: Any, **kwargs: Any) -> None:  # Any: those of the base class
        super().__init__(*args, **kwargs)
        self._stream = _Stream(self.fp.detach())
        self.fp = self._reader = _Reader(self._stream)

    def begin(self) -> None:
        super().begin()
        self._stream.begin_body(self._stream.num_bytes - self._reader.line_bytes)


class _Adapter(requests.adapters.HTTPAdapter):
    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:  # Any: those of the base class
        super().init_poolmanager(*args, **kwargs)
        _measure(self.poolmanager)

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:  # Any: those of the base class
        manager = super().proxy_manager_for(*args, **kwargs)
        _measure(manager)
        return manager


def _measure(manager: urllib3.PoolManager) -> None:
    """Let all connections of a manager, a SOCKS proxy's too, make our responses."""
    pools = manager.pool_classes_by_scheme
    manager.pool_classes_by_scheme = {scheme: _measured(pool) for scheme, pool in pools.items()}


def _measured(pool: type[Any]) -> type[Any]:  # Any: urllib3's pools have no common type that names their connections
    connection = type(pool.ConnectionCls.__name__, (pool.ConnectionCls,), {"response_class": _Response})
    return type(pool.__name__, (pool,), {"ConnectionCls": connection})
