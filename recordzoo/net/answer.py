"""`Answer`: a server's answer to one GET: its bytes as sent, and their rate."""

import contextlib
import html
import re
import time
from types import TracebackType

import requests
import urllib3.exceptions  # requests raises these through `Response.raw`, and installs the package

from recordzoo.base import settings
from recordzoo.base.addresses import host, public_text
from recordzoo.base.progress import format_bytes
from recordzoo.net import drive
from recordzoo.net.retry import TryAgainError

_CHUNK_BYTES = 128 << 10
_CHUNK_S = 5.0
"""Seconds after which received bytes are returned although they are less than a chunk: a kill then loses little."""
_HEAD_BYTES = 512
"""Number of bytes that tell an archive from a web page."""

_TITLE = re.compile(rb"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_MARKUP = re.compile(rb"(\xef\xbb\xbf)?\s*(<!doctype\s+html|<html|<head|<body|<script)", re.IGNORECASE)

_MAX_DIGITS = 18
"""More digits than any file's size has; Python itself refuses numbers of some thousand digits."""

_CONTENT_RANGE = re.compile(r"bytes\s+([0-9]+)-([0-9]+)/([0-9]+|\*)")
_UNSATISFIED_RANGE = re.compile(r"bytes\s+\*/([0-9]+)")


class Answer:
    """A server's answer to one GET, body unread: 200, 206 or 416."""

    def __init__(self, url: str, response: requests.Response) -> None:
        self._host = host(url)
        self._response = response
        self.status = response.status_code
        self.etag = response.headers.get("ETag", "").strip()
        self.last_modified = response.headers.get("Last-Modified", "").strip()
        self._pace = Pace()
        self._broken: TryAgainError | None = None
        self._seen = b""

    def __enter__(self) -> "Answer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._response.close()

    def interrupt(self) -> None:
        """Make `read` return as if the connection had ended; called from another thread."""
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # already ended
            self._response.raw.shutdown()

    @property
    def start(self) -> int | None:
        """The body's offset in the file; None if the answer does not say."""
        if self.status == 200:
            return 0
        return content_range(self._header("Content-Range"))[0]

    @property
    def total(self) -> int | None:
        """The size of the whole file in bytes; None if the answer does not say."""
        if self.status == 200:
            return count(self._header("Content-Length"))
        return content_range(self._header("Content-Range"))[1]

    def read(self) -> bytes:
        """Return the next bytes of the body, including those received before it broke; b"" at its end.

        Raises:
            TryAgainError: The connection broke, went silent or became too slow.
        """
        if self._seen:
            seen, self._seen = self._seen, b""
            return seen
        chunk, begun = bytearray(), time.monotonic()
        while self._broken is None and len(chunk) < _CHUNK_BYTES:
            if len(chunk) >= _HEAD_BYTES and time.monotonic() - begun > _CHUNK_S:
                break
            try:
                data = self._receive(_CHUNK_BYTES - len(chunk))
            except TryAgainError as err:
                self._broken = err
                break
            if not data:
                break
            chunk += data
        if self._broken is not None and not chunk:
            raise self._broken
        return bytes(chunk)

    def _receive(self, most: int) -> bytes:
        """Return bytes of the body. If they come too slowly, only the next read fails, so that no byte is lost."""
        try:
            with self._pace:
                data: bytes = self._response.raw.read1(most, decode_content=False)
        except urllib3.exceptions.ReadTimeoutError as err:
            raise TryAgainError(f"{self._host} sent nothing for {settings.timeout_s():g} s") from err
        except (urllib3.exceptions.HTTPError, OSError, ValueError, OverflowError) as err:  # also for false headers
            raise TryAgainError(f"the connection to {self._host} broke ({cause(err)})") from err
        too_few = self._pace.too_few(len(data))
        if data and too_few is not None:
            self._broken = TryAgainError(
                f"{self._host} sent {format_bytes(too_few)} in {self._pace.window_s:g} s; RECORDZOO_MIN_SPEED asks for "
                f"{format_bytes(int(self._pace.least_bytes))}",
                slow_bytes=too_few,
            )
        return data

    def confirmed_url(self) -> str | None:
        """Return the address in Google Drive's question, if the body is its page and not the file; see `drive`.

        Raises:
            TryAgainError: As `read`.
        """
        if self.status != 200 or "html" not in self._header("Content-Type").lower():
            return None
        page = self.read()
        while _MARKUP.match(page) and len(page) < drive.PAGE_BYTES and (more := self.read()):
            page += more
        self._seen = page
        return drive.confirmed_url(page.decode("utf-8", "replace")) if _MARKUP.match(page) else None

    def page_title(self, head: bytes) -> str | None:
        """Return the title of the body, which starts with `head`, if it is a web page ("" without one); else None."""
        says_html = "html" in self._response.headers.get("Content-Type", "").lower()
        is_text = not any(byte < 9 for byte in head[:512])  # every archive has such a byte early on
        if not _MARKUP.match(head) and not (says_html and is_text and head):
            return None
        match = _TITLE.search(head)
        title = html.unescape(match[1].decode("utf-8", "replace")) if match else ""
        return " ".join(title.split())[:100]

    def _header(self, name: str) -> str:
        return self._response.headers.get(name, "")


class Pace:
    """A clock that runs only during waits for bytes; use it as a context manager around each receive.

    It measures in windows of `RECORDZOO_TIMEOUT`. One burst in each window is enough, so that an unsteady line does not
    count as slow.

    Attributes:
        window_s: Length of a window in seconds; 0 for no windows.
        least_bytes: Bytes that must arrive in each window.
    """

    def __init__(self) -> None:
        self.window_s = settings.timeout_s()
        self.least_bytes = self.window_s * settings.min_bytes_per_s()
        self._came_bytes = 0
        self._waited_s = 0.0

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._waited_s += time.monotonic() - self._began

    def too_few(self, num_bytes: int) -> int | None:
        """Count received bytes; at the end of a window, start the next one.

        Returns:
            The bytes of the window that ended, if they were too few.
        """
        self._came_bytes += num_bytes
        if not self.window_s or self._waited_s < self.window_s:
            return None
        came_bytes, self._came_bytes, self._waited_s = self._came_bytes, 0, 0.0
        return came_bytes if came_bytes < self.least_bytes else None


def count(text: str) -> int | None:
    """Parse a number of bytes; None if it is not a number, or larger than any file."""
    digits = text.strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS else None


def content_range(text: str) -> tuple[int | None, int | None]:
    """Parse a Content-Range header into the body's offset and the file's size; None for a value that it lacks."""
    if match := _CONTENT_RANGE.fullmatch(text.strip()):
        return count(match[1]), count(match[3])
    match = _UNSATISFIED_RANGE.fullmatch(text.strip())
    return None, count(match[1]) if match else None


def cause(err: BaseException) -> str:
    """Return the message of the innermost error: ``[Errno 111] Connection refused``."""
    while below := err.__cause__ or err.__context__:
        err = below
    return public_text(str(err)) or type(err).__name__
