"""`Store`: the files below a URL, read and written through fsspec, with retries; it pickles to its URL."""

import functools
import inspect
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from recordzoo.base import settings
from recordzoo.errors import RemoteError
from recordzoo.net import http as retry
from recordzoo.net.failures import (
    NOT_FOUND,
    RANGE_NOT_SATISFIABLE,
    asked_pause_s,
    check_online,
    may_pass,
    remote_error,
    status_of,
)
from recordzoo.net.hub import is_bucket, put_in_bucket
from recordzoo.net.url import WITHOUT_SERVER, Url

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

logger = logging.getLogger("recordzoo")

T = TypeVar("T")

PIECE_BYTES = 4 << 20
"""A file is requested in pieces of this size: only a piece that stalls is requested again."""

PARALLEL = 4
"""Pieces of a file requested at once: this hides their latency."""

S3_SCHEMES = ("s3", "s3a")
_EXISTS = (409, 412)  # statuses of a request to create an existing file
_NOT_IMPLEMENTED = 501
_PART_BYTES, _MAX_PARTS = 8 << 20, 9_000  # S3 takes 10,000 parts

_OPTIONS: dict[str, dict[str, Any]] = {  # Any: options of any type
    # With botocore's 10 connections, requests would queue. Some servers send the whole file's checksum with a range:
    # botocore would compare it. Ours are compared in any case.
    "s3": {"config_kwargs": {"max_pool_connections": 64, "response_checksum_validation": "when_required"}},
    # Instances are shared, and remember which repositories and files there were.
    "hf": {"skip_instance_cache": True},
}
_abandoned: list[object] = []  # a parent process's file systems, kept: their finalizers would use its event loop


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A server's description of a file.

    Attributes:
        size_bytes: Its size; None if a listing does not say, as those of web servers.
        etag: S3's ETag, without the quotation marks, or the SHA-256 of a large file on the Hub; "" if there is none.
    """

    size_bytes: int | None
    etag: str = ""


class Store:
    """The files below a URL. Any thread may use it; each process creates its own file system.

    Temporary errors (a timeout, a lost connection, status 5xx, 408, 429) are retried with growing pauses, or after the
    pause that the server asks for (Retry-After, up to 5 minutes). Permanent errors (no such file, no access) are not
    retried. Every failure is a `RemoteError` that shows no credentials.

    Args:
        url: The folder.
    """

    def __init__(self, url: Url) -> None:
        self.url = url
        self._fs: AbstractFileSystem | None = None
        self._pid = 0
        self._sends_whole_files = False  # the server ignores ranges

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.url,)

    def file_system(self) -> "AbstractFileSystem":
        """Return this process's file system.

        Raises:
            RemoteError: It needs a package that is not installed, or the network is switched off.
        """
        if self._fs is None or self._pid != os.getpid():
            if self._fs is not None:
                _abandoned.append(self._fs)
            if self.url.scheme not in WITHOUT_SERVER:
                check_online(self.url)
            self._fs, self._pid = self._retried("", "opened", self._opened), os.getpid()
        return self._fs

    def _opened(self) -> "AbstractFileSystem":
        from fsspec.config import conf
        from fsspec.core import url_to_fs

        given, known = _OPTIONS.get(self.url.scheme, {}), conf.get(self.url.scheme, {})
        options = {name: value for name, value in given.items() if name not in known}
        opened: AbstractFileSystem = url_to_fs(self.url.full, use_listings_cache=False, **options)[0]
        return opened

    def path(self, name: str = "") -> str:
        """Return the file system's path of a file, or with "" of the folder; it may contain credentials."""
        url = self.url / name if name else self.url
        stripped: str = self.file_system()._strip_protocol(url.full)
        return stripped

    def read(self, name: str, max_bytes: int) -> bytes:
        """Return the content of a small file, or its first `max_bytes`.

        Raises:
            RemoteError: It cannot be read; `status` is 404 if there is none.
        """
        return self._retried(name, "read", lambda: self._cat(name, 0, max_bytes))[:max_bytes]

    def read_if_there(self, name: str, max_bytes: int, absent: Sequence[int] = (NOT_FOUND,)) -> bytes | None:
        """Do as `read`; return None if the server answers with a status in `absent`."""
        return self._if_there(name, "read", lambda: self._cat(name, 0, max_bytes)[:max_bytes], absent)

    def pieces(self, name: str, size_bytes: int, start: int = 0) -> Iterator[bytes]:
        """Yield a file's bytes in order, from `start` on, with several requests at once.

        Args:
            name: The file.
            size_bytes: Its size.
            start: The first byte.

        Raises:
            RemoteError: It cannot be read, or is shorter than `size_bytes`.
        """
        step = size_bytes if self._sends_whole_files else PIECE_BYTES
        begins = iter(range(start, size_bytes, max(1, step)))
        pool = ThreadPoolExecutor(PARALLEL, "recordzoo-get")
        under_way: list[Future[bytes]] = []
        try:
            while True:
                while len(under_way) < PARALLEL and (begin := next(begins, None)) is not None:
                    end = min(begin + step, size_bytes)
                    under_way.append(pool.submit(self.read_range, name, begin, end, size_bytes))
                if not under_way:
                    return
                yield under_way.pop(0).result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def read_range(self, name: str, begin: int, end: int, size_bytes: int) -> bytes:
        """Return a range of a file.

        Args:
            name: The file.
            begin, end: The first byte, and the one after the last.
            size_bytes: The file's size.

        Raises:
            RemoteError: It cannot be read, or the file is shorter.
        """
        parts: list[bytes] = []
        while begin < end:
            data = self._retried(name, "read", functools.partial(self._cut, name, begin, end, size_bytes))
            if not data:
                text = f"{self.url / name} has fewer than {size_bytes:,} bytes: it was replaced, or it was not written "
                raise RemoteError(f"{text}completely.", url=str(self.url / name), status=RANGE_NOT_SATISFIABLE)
            parts.append(data)
            begin += len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def size(self, name: str) -> int | None:
        """Return the size of a file in bytes; None if there is none.

        Raises:
            RemoteError: The server does not say.
        """
        found = self._if_there(name, "read", lambda: self.file_system().info(self.path(name))) or {}
        return None if found.get("size") is None else int(found["size"])

    def entries(self) -> dict[str, StoredFile]:
        """Return the server's description of each file in the folder, by name; empty if there is no such folder.

        Raises:
            RemoteError: The server cannot list files, or refuses to.
        """
        files = (entry for entry in self._listing() if entry.get("type") == "file")
        return {self._last_part(each): StoredFile(each["size"], _etag(each)) for each in files}

    def folders(self) -> Sequence[str]:
        """List the names of the folders in the folder.

        Raises:
            RemoteError: As `entries`.
        """
        return [self._last_part(entry) for entry in self._listing() if entry.get("type") == "directory"]

    def _listing(self) -> Sequence[dict[str, Any]]:
        found: Sequence[dict[str, Any]] | None
        found = self._if_there("", "listed", lambda: self.file_system().ls(self.path(), detail=True, refresh=True))
        return found or []

    def _last_part(self, entry: dict[str, Any]) -> str:
        name = str(entry["name"])
        path = name if self.url.scheme in WITHOUT_SERVER else name.partition("?")[0]
        return path.rstrip("/").rpartition("/")[2]

    def put(self, path: Path, name: str, advance: Callable[[int], None] = lambda num_bytes: None) -> None:
        """Upload a local file; create the folder if it is missing.

        Args:
            path: The local file.
            name: Its name in the folder.
            advance: Called with the number of bytes sent; negative when they are sent again.

        Raises:
            RemoteError: It cannot be written.
        """
        told = 0

        def tell(size: int | None, value: int, **_: object) -> None:
            nonlocal told
            advance(value - told)
            told = value

        def send() -> None:
            from fsspec.callbacks import Callback

            tell(None, 0)
            fs, target = self.file_system(), self.path(name)
            if is_bucket(self.url):
                put_in_bucket(fs, path, self.url / name)
                tell(None, path.stat().st_size)
                return
            self._make_folder()
            options = {}
            if self.url.scheme in S3_SCHEMES:  # s3fs would keep ten parts of each file in memory
                options = {"chunksize": part_bytes(path.stat().st_size), "max_concurrency": PARALLEL}
            fs.put_file(os.fspath(path), target, callback=Callback(hooks={"advance": tell}), **options)

        self._retried(name, "written", send)

    def create(self, name: str, data: bytes) -> None:
        """Create a small file unless it exists; the caller reads it to see whose it is.

        On a store without such a request, the file's existence is checked first.

        Raises:
            RemoteError: It cannot be written.
        """

        def send() -> None:
            fs, target = self.file_system(), self.path(name)
            self._make_folder()
            try:
                if self.url.scheme in ("file", "local"):
                    _create_here(Path(target), data)
                elif _creates(fs):
                    fs.pipe_file(target, data, mode="create")
                elif not fs.exists(target):
                    fs.pipe_file(target, data)
            except Exception as err:
                if status_of(err) == _NOT_IMPLEMENTED and not fs.exists(target):  # some S3-compatible servers
                    fs.pipe_file(target, data)
                elif not isinstance(err, FileExistsError) and status_of(err) not in _EXISTS:
                    raise

        self._retried(name, "written", send)

    def _make_folder(self) -> None:
        if self.url.scheme in WITHOUT_SERVER:  # others have no folders
            self.file_system().makedirs(self.path(), exist_ok=True)

    def remove(self, name: str) -> None:
        """Remove a file if it exists.

        Raises:
            RemoteError: It cannot be removed.
        """
        self._if_there(name, "removed", lambda: self.file_system().rm_file(self.path(name)))

    def _cut(self, name: str, begin: int, end: int, size_bytes: int) -> bytes:
        data = self._cat(name, begin, end)
        if len(data) <= end - begin:
            return data
        if len(data) != size_bytes:
            text = f"{self.url / name} has {len(data):,} bytes instead of {size_bytes:,}: it was replaced."
            raise RemoteError(text, url=str(self.url / name), status=RANGE_NOT_SATISFIABLE)
        self._sends_whole_files = True
        return data[begin:end]

    def _cat(self, name: str, begin: int, end: int) -> bytes:
        fs, path = self.file_system(), self.path(name)
        # fsspec's wrapper of asynchronous file systems takes the timeout; the others have their own.
        options: dict[str, Any] = {"timeout": settings.timeout_s() or None} if fs.async_impl else {}
        if self.url.scheme in ("http", "https"):
            options["headers"] = {"Accept-Encoding": "identity"}  # ranges count the uncompressed bytes
        data: bytes = fs.cat_file(path, start=begin, end=end, **options)  # by keyword: s3fs has another argument first
        return data

    def _if_there(
        self, name: str, doing: str, action: Callable[[], T], absent: Sequence[int] = (NOT_FOUND,)
    ) -> T | None:
        """Do as `_retried`; return None if there is no such file."""
        try:
            return self._retried(name, doing, action)
        except RemoteError as err:
            if err.status in absent:
                return None
            raise

    def _retried(self, name: str, doing: str, action: Callable[[], T]) -> T:
        """Call a function; retry it after temporary errors."""
        url = self.url / name if name else self.url
        for attempt in range(1, retry.ATTEMPTS + 1):
            try:
                return action()
            except RemoteError:
                raise
            except Exception as err:  # noqa: BLE001 - packages raise errors of all kinds
                failure = remote_error(err, url, doing)
                pause_s = asked_pause_s(err) or retry.pause_s(attempt)
                again = attempt < retry.ATTEMPTS and pause_s <= retry.RETRY_AFTER_CAP_S and may_pass(err)
            # Outside `except`: the other package's error may show credentials.
            if not again:
                raise failure
            logger.debug("%s attempt %d: %s", url, attempt, failure)
            time.sleep(pause_s)
        raise AssertionError("unreachable")


def _etag(entry: dict[str, Any]) -> str:
    etag = entry.get("ETag") or (entry.get("lfs") or {}).get("sha256")
    return str(etag or "").strip('"')


def part_bytes(size_bytes: int) -> int:
    """Return the part size for uploading a large file to S3."""
    return max(_PART_BYTES, -(-size_bytes // _MAX_PARTS))


def _creates(fs: "AbstractFileSystem") -> bool:
    """Whether a file system supports `mode="create"`; adlfs before 2025 and others do not."""
    function = fs._pipe_file if fs.async_impl else fs.pipe_file
    return "mode" in inspect.signature(function).parameters


def _create_here(path: Path, data: bytes) -> None:
    """Create a local file atomically, with its whole content."""
    part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    part.write_bytes(data)
    try:
        os.link(part, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        with open(path, "xb") as file:
            file.write(data)
    finally:
        part.unlink()
