"""One HTTP answer: redirects followed by our rules, its bytes as sent, and what is wrong with it put into words."""

import contextlib
import datetime
import html
import http
import importlib.metadata
import re
import time
import urllib.parse
from collections.abc import Generator, Mapping
from types import TracebackType
from typing import Any

import requests
import urllib3.exceptions  # requests raises these through `Response.raw`, and installs the package

from recordzoo import settings
from recordzoo.addresses import Address, host, public_text
from recordzoo.errors import DownloadError
from recordzoo.net.retry import retry_after_s
from recordzoo.progress import format_bytes
from recordzoo.sources import _drive, _headers
from recordzoo.sources._pace import Pace

MAX_REDIRECTS = 5
_CHUNK_BYTES = 128 << 10
_CHUNK_S = 5.0
"""What came within this time is handed on though it is less than a chunk: a kill loses little, and the part grows."""
_HEAD_BYTES = 512
"""What it takes to tell an archive from a web page."""

_RETRIED = {408, 425, 429}
_PROXY_LOGIN = "Your proxy wants a login: HTTPS_PROXY=http://user:password@host:port."
_TITLE = re.compile(rb"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_MARKUP = re.compile(rb"(\xef\xbb\xbf)?\s*(<!doctype\s+html|<html|<head|<body|<script)", re.IGNORECASE)
_TUNNEL_STATUS = re.compile(r"Tunnel connection failed: (\d{3})")


class TryAgainError(Exception):
    """This attempt failed and another may not; never leaves `sources`.

    Args:
        reason: What happened, to follow a file's name and a colon.
        wait_s: What the server asks for; None: as long as the caller thinks right.
        from_zero: The bytes that are there cannot be continued at this address.
        slow_bytes: How many of the bytes that this attempt brought came too slowly to be called progress.
    """

    def __init__(
        self, reason: str, *, wait_s: float | None = None, from_zero: bool = False, slow_bytes: int = 0
    ) -> None:
        super().__init__(reason)
        self.wait_s = wait_s
        self.from_zero = from_zero
        self.slow_bytes = slow_bytes


class Session(requests.Session):
    """Carries connections and cookies from one request to the next."""

    def resolve_redirects(self, *_args: Any, **_kwargs: Any) -> Generator[requests.Response]:  # Any: not looked at
        """Return nothing: `get` follows redirects, and requests would read the body of each, however long it is."""
        yield from ()


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
        """From another thread: let `read` return as if the connection had ended."""
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # it has ended
            self._response.raw.shutdown()

    @property
    def start(self) -> int | None:
        """Where in the file the body starts; None if the answer does not say so."""
        if self.status == 200:
            return 0
        return _headers.content_range(self._header("Content-Range"))[0]

    @property
    def total(self) -> int | None:
        """How long the whole file is by this answer; None if it does not say so."""
        if self.status == 200:
            return _headers.count(self._header("Content-Length"))
        return _headers.content_range(self._header("Content-Range"))[1]

    def read(self) -> bytes:
        """Return the next bytes of the body, all that came before it broke included; b"" at its end.

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
        """Return bytes of the body; if they come too slowly, the next read is an error, so that none is lost."""
        try:
            with self._pace:
                data: bytes = self._response.raw.read1(most, decode_content=False)
        except urllib3.exceptions.ReadTimeoutError as err:
            raise TryAgainError(f"{self._host} sent nothing for {settings.timeout_s():g} s") from err
        except (urllib3.exceptions.HTTPError, OSError, ValueError, OverflowError) as err:  # of headers that lie, too
            raise TryAgainError(f"the connection to {self._host} broke ({_cause(err)})") from err
        too_few = self._pace.too_few(len(data))
        if data and too_few is not None:
            self._broken = TryAgainError(
                f"{self._host} sent {format_bytes(too_few)} in {self._pace.window_s:g} s; RECORDZOO_MIN_SPEED asks for "
                f"{format_bytes(int(self._pace.least_bytes))}",
                slow_bytes=too_few,
            )
        return data

    def confirmed_url(self) -> str | None:
        """Return where Google Drive's question leads, if this is its page and not the file; see `_drive`.

        Raises:
            TryAgainError: As `read`.
        """
        if self.status != 200 or "html" not in self._header("Content-Type").lower():
            return None
        page = self.read()
        while _MARKUP.match(page) and len(page) < _drive.PAGE_BYTES and (more := self.read()):
            page += more
        self._seen = page
        return _drive.confirmed_url(page.decode("utf-8", "replace")) if _MARKUP.match(page) else None

    def page_title(self, head: bytes) -> str | None:
        """Tell whether the body, whose first bytes are `head`, is a web page: its title ("" without one), else None."""
        says_html = "html" in self._response.headers.get("Content-Type", "").lower()
        is_text = not any(byte < 9 for byte in head[:512])  # every archive has such a byte early on
        if not _MARKUP.match(head) and not (says_html and is_text and head):
            return None
        match = _TITLE.search(head)
        title = html.unescape(match[1].decode("utf-8", "replace")) if match else ""
        return " ".join(title.split())[:100]

    def _header(self, name: str) -> str:
        return self._response.headers.get(name, "")


def get(session: requests.Session, address: Address, headers: Mapping[str, str]) -> Answer:
    """Ask for a file, following redirects: https never to anything else, at most `MAX_REDIRECTS` of them.

    Google Drive's question before a large file is answered, as a redirect.

    Raises:
        TryAgainError: The server cannot be reached or is busy.
        DownloadError: It will not give the file however often it is asked.
    """
    here, seen = address, {address.url}
    while True:
        response = _get_once(session, here, headers)
        try:
            there = _redirect(session, here, response)
            if there is None:
                _check_status(here.url, response)
                answer = Answer(here.url, response)
                confirmed = answer.confirmed_url()
                if confirmed is None:
                    return answer
                there = here.redirected(confirmed)
            _check_redirect(address.url, here.url, there.url, seen)
        except BaseException:
            response.close()
            raise
        response.close()
        seen.add(there.url)
        here = there


def _redirect(session: requests.Session, here: Address, response: requests.Response) -> Address | None:
    """Return where an answer sends us; None if it is no redirect."""
    try:
        location = session.get_redirect_target(response)
        return None if location is None else here.redirected(location)
    except ValueError as err:  # no UTF-8, or no URL
        raise DownloadError(f"{here}: the server redirects to something that is no address ({err}).") from err


def _get_once(session: requests.Session, address: Address, headers: Mapping[str, str]) -> requests.Response:
    url, login = address.url, address.login
    all_headers = {
        # Some hosts refuse the names of Python's libraries.
        "User-Agent": f"recordzoo/{_version()} (+https://recordzoo.github.io/recordzoo/)",
        "Accept-Encoding": "identity",  # a re-compressed body has other offsets
        **headers,
    }
    timeout = settings.timeout_s() or None  # 0: however long it takes
    try:
        return session.get(
            url,
            headers=all_headers,
            auth=None if login is None else requests.auth.HTTPBasicAuth(*login),
            timeout=timeout,
            stream=True,
            allow_redirects=False,
        )
    except requests.exceptions.SSLError as err:
        if "CERTIFICATE_VERIFY_FAILED" not in str(err):
            raise TryAgainError(f"no secure connection to {host(url)} ({_cause(err)})") from err
        raise DownloadError(
            f"{url}: the certificate of {host(url)} is not valid ({_cause(err)}). If your network has a certificate "
            "authority of its own, name its file in REQUESTS_CA_BUNDLE; also check this machine's clock."
        ) from err
    except requests.exceptions.ProxyError as err:
        raise _proxy_error(session, url, err) from err
    except requests.exceptions.Timeout as err:
        raise TryAgainError(f"{host(url)} did not answer for {settings.timeout_s():g} s") from err
    except (requests.exceptions.ConnectionError, requests.exceptions.ChunkedEncodingError) as err:
        raise TryAgainError(f"no connection to {host(url)} ({_cause(err)})") from err
    except (requests.exceptions.RequestException, ValueError) as err:
        shown = public_text(str(err))
        # The error itself would be shown above ours, with the login of a proxy.
        raise DownloadError(f"{url!r} cannot be asked for: {shown}.") from (err if shown == str(err) else None)


def _proxy_error(session: requests.Session, url: str, err: requests.exceptions.ProxyError) -> Exception:
    """Say that it is the proxy that fails, and which one; what it refuses it refuses again."""
    proxies = session.merge_environment_settings(url, {}, None, None, None)["proxies"]
    proxy = host(requests.utils.select_proxy(url, proxies) or "unknown")
    cause = _cause(err)
    status = _TUNNEL_STATUS.search(cause)
    if status is None or not _is_final(int(status[1])):
        return TryAgainError(f"no connection to {host(url)} through the proxy {proxy} ({cause})")
    hint = (
        _PROXY_LOGIN if status[1] == "407" else "It may let other addresses through: try a mirror (RECORDZOO_MIRROR)."
    )
    return DownloadError(f"{url}: the proxy {proxy} answered {_status(int(status[1]))}. {hint}", status=int(status[1]))


def _check_redirect(url: str, here: str, there: str, seen: set[str]) -> None:
    scheme = urllib.parse.urlsplit(there).scheme
    if scheme not in ("http", "https") or (here.startswith("https:") and scheme != "https"):
        raise DownloadError(
            f"{url}: {here} redirects to {there}; from https only https is followed, so that nobody on the way can "
            "exchange the file. Try a mirror (RECORDZOO_MIRROR)."
        )
    if there in seen:
        raise DownloadError(f"{url}: redirected in a loop ({' -> '.join([*sorted(seen), there])}).")
    if len(seen) > MAX_REDIRECTS:
        raise DownloadError(f"{url}: more than {MAX_REDIRECTS} redirects, the last one to {there}.")


def _check_status(url: str, response: requests.Response) -> None:
    status = response.status_code
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower() or "identity"
    if status in (200, 206) and encoding != "identity":
        raise DownloadError(
            f"{url}: sent with Content-Encoding {encoding}, though only the file's own bytes were asked for; it could "
            "not be resumed. A proxy may do that; try another network or a mirror (RECORDZOO_MIRROR)."
        )
    if status in (200, 206, 416):
        return
    if not _is_final(status):
        wait_s = retry_after_s(response.headers.get("Retry-After", ""), datetime.datetime.now(datetime.UTC))
        raise TryAgainError(f"{host(url)} answered {_status(status)}", wait_s=wait_s)
    hint = "Try a mirror (RECORDZOO_MIRROR)."
    if status in (401, 403):
        hint = "The host may want a login, or its terms accepted: open the address in a browser."
    elif status in (404, 410):
        hint = "The file may have moved: see whether a newer recordzoo knows where, or try a mirror (RECORDZOO_MIRROR)."
    elif status == 407:
        hint = _PROXY_LOGIN
    raise DownloadError(f"{url}: the server answered {_status(status)}. {hint}", status=status)


def _is_final(status: int) -> bool:
    """Whether the same request will get the same answer again."""
    return status < 500 and status not in _RETRIED


def _status(status: int) -> str:
    try:
        return f"{status} {http.HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _cause(err: BaseException) -> str:
    """Say what lies under the libraries: ``[Errno 111] Connection refused``."""
    while below := err.__cause__ or err.__context__:
        err = below
    return public_text(str(err)) or type(err).__name__


def _version() -> str:
    try:
        return importlib.metadata.version("recordzoo")
    except importlib.metadata.PackageNotFoundError:  # run from a checkout
        return "0"
