"""One GET of a file over HTTP: retries and their pauses, redirects, Google Drive's pages, the pace of the bytes."""

import contextlib
import datetime
import email.utils
import functools
import html
import http
import random
import re
import time
import urllib.parse
from collections.abc import Mapping
from html.parser import HTMLParser

import requests
import urllib3.exceptions
from typing_extensions import override

import recordzoo
from recordzoo.base import settings
from recordzoo.base.progress import format_bytes
from recordzoo.base.text import Address, host, public_text, public_url
from recordzoo.errors import DownloadError

ATTEMPTS = 5
"""Failures in a row without a new byte. A line that drops every 100 MB still brings 148 GB."""

BACKOFF_S = 1.0
"""The first pause in seconds. Each pause doubles, up to `BACKOFF_CAP_S`, less a random part of up to a half."""

BACKOFF_CAP_S = 30.0

RETRY_AFTER_CAP_S = 300.0
"""Seconds. A host that asks for a longer pause counts as failed."""

_FOREVER_S = 1e9


class TryAgainError(Exception):
    """This attempt failed, another may succeed; not raised outside this room.

    Args:
        reason: The failure, in words that follow a file's name and a colon.
        wait_s: The pause that the server asks for; None: the caller chooses.
        from_zero: This address cannot continue the present bytes.
        slow_bytes: How many bytes of this attempt came too slowly to count as progress.
    """

    def __init__(
        self, reason: str, *, wait_s: float | None = None, from_zero: bool = False, slow_bytes: int = 0
    ) -> None:
        super().__init__(reason)
        self.wait_s = wait_s
        self.from_zero = from_zero
        self.slow_bytes = slow_bytes


def pause_s(failed: int) -> float:
    """Return the pause after `failed` failures in a row.

    Half of it is random, so that a thousand jobs that lost the same server do not return at once. It uses its own
    generator: jobs that seed `random` alike would wait alike.
    """
    return min(BACKOFF_CAP_S, BACKOFF_S * 2.0 ** max(0, failed - 1)) * random.Random().uniform(0.5, 1.0)


def retry_after_s(text: str) -> float | None:
    """Parse a Retry-After header, seconds or a date; None if it is neither (RFC 9110, section 10.2.3)."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(float(text), _FOREVER_S)
    try:
        when = email.utils.parsedate_to_datetime(text)
        if when.tzinfo is None:  # "-0000": UTC from a clock without a zone
            when = when.replace(tzinfo=datetime.UTC)
        return max(0.0, (when - datetime.datetime.now(datetime.UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None


PAGE_BYTES = 256 << 10
"""Bytes of a page that are read; the page with the form has about 2.5 kB."""

_FORM_ID = "download-form"
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)


def confirmed_url(page: str) -> str | None:
    """Return the address of "Download anyway"; None if the page does not ask."""
    form = _Form()
    form.feed(page)
    if not form.action:
        return None
    separator = "&" if "?" in form.action else "?"
    return f"{form.action}{separator}{urllib.parse.urlencode(form.fields)}" if form.fields else form.action


def page_title(page: str) -> str:
    """Return the title of a web page; "" if it has none."""
    match = _TITLE.search(page)
    return " ".join(html.unescape(match[1]).split())[:100] if match else ""


class _Form(HTMLParser):
    """The action and the hidden fields of Drive's form."""

    def __init__(self) -> None:
        super().__init__()
        self.action = ""
        self.fields: list[tuple[str, str]] = []
        self._is_inside = False

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "form" and found.get("id") in (_FORM_ID, "downloadForm"):
            self._is_inside, self.action = True, found.get("action", "")
        elif tag == "input" and self._is_inside and found.get("type") == "hidden" and found.get("name"):
            self.fields.append((found["name"], found.get("value", "")))

    @override
    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._is_inside = False


_CHUNK_BYTES = 128 << 10
_HEAD_BYTES = 512
"""Number of bytes that tell an archive from a web page."""

_MARKUP = re.compile(rb"(\xef\xbb\xbf)?\s*(<!doctype\s+html|<html|<head|<body|<script)", re.IGNORECASE)

_MAX_DIGITS = 18
"""More digits than any file's size has; Python itself refuses numbers of some thousand digits."""

_CONTENT_RANGE = re.compile(r"bytes\s+([0-9]+)-([0-9]+)/([0-9]+|\*)")
_UNSATISFIED_RANGE = re.compile(r"bytes\s+\*/([0-9]+)")


class Answer:
    """A server's answer to one GET, body unread: 200, 206 or 416.

    Attributes:
        start: The body's offset in the file; None if the answer does not say.
        total: The size of the whole file in bytes; None if the answer does not say.
    """

    def __init__(self, response: requests.Response) -> None:
        headers = response.headers
        self.url, self.status = response.url, response.status_code
        self.etag, self.last_modified = (headers.get(name, "").strip() for name in ("ETag", "Last-Modified"))
        self.start, self.total = content_range(headers.get("Content-Range", ""))
        if self.status == 200:
            self.start, self.total = 0, count(headers.get("Content-Length", ""))
        self._host = host(response.url)
        self._response = response
        self._pace = Pace()
        self._broken: TryAgainError | None = None
        self._seen = b""

    def __enter__(self) -> "Answer":
        return self

    def __exit__(self, *error: object) -> None:
        self._response.close()

    @property
    def validator(self) -> str:
        """The value for `If-Range`: a strong ETag, else the date (RFC 9110, section 13.1.5), else ""."""
        return self.etag if self.etag and not self.etag.startswith("W/") else self.last_modified

    def interrupt(self) -> None:
        """Make `read` return as if the connection had ended; called from another thread."""
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # already ended
            self._response.raw.shutdown()

    @functools.cached_property
    def page(self) -> str | None:
        """The start of the body if that is a web page and not an archive, else None; `read` returns it again.

        Raises:
            TryAgainError: Nothing came.
        """
        head = self._ahead(_HEAD_BYTES)
        says_html = "html" in self._response.headers.get("Content-Type", "").lower()
        is_text = not any(byte < 9 for byte in head[:_HEAD_BYTES])  # every archive has such a byte early on
        if not _MARKUP.match(head) and not (says_html and is_text and head):
            return None
        return self._ahead(PAGE_BYTES).decode("utf-8", "replace")

    def _ahead(self, num_bytes: int) -> bytes:
        """Return so many bytes that `read` will return again, fewer before the end or a failure."""
        try:
            while len(self._seen) < num_bytes and (more := self._receive()):
                self._seen += more
        except TryAgainError as err:
            if not self._seen:
                raise
            self._broken = err
        return self._seen

    def read(self) -> bytes:
        """Return the next bytes of the body; b"" at its end.

        Raises:
            TryAgainError: The connection broke, went silent or became too slow.
        """
        seen, self._seen = self._seen, b""
        return seen or self._receive()

    def _receive(self) -> bytes:
        """Return bytes of the body. If they came too slowly, only the next call fails, so that no byte is lost."""
        if self._broken is not None:
            raise self._broken
        try:
            with self._pace:
                data: bytes = self._response.raw.read1(_CHUNK_BYTES, decode_content=False)
        except urllib3.exceptions.ReadTimeoutError as err:
            raise TryAgainError(f"{self._host} sent nothing for {settings.timeout_s():g} s") from err
        except (urllib3.exceptions.HTTPError, OSError, ValueError, OverflowError) as err:  # also for false headers
            raise TryAgainError(f"the connection to {self._host} broke ({cause(err)})") from err
        too_few = self._pace.too_few(len(data))
        if too_few is not None:
            self._broken = TryAgainError(
                f"{self._host} sent {format_bytes(too_few)} in {self._pace.window_s:g} s; RECORDZOO_MIN_SPEED asks for "
                f"{format_bytes(int(self._pace.least_bytes))}",
                slow_bytes=too_few,
            )
        return data


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


MAX_REDIRECTS = 5
_RETRIED = {408, 425, 429}
_PROXY_LOGIN = "Your proxy wants a login: HTTPS_PROXY=http://user:password@host:port."
_TUNNEL_STATUS = re.compile(r"Tunnel connection failed: (\d{3})")


class Session(requests.Session):
    """Carries connections and cookies from one request to the next; follows no redirect away from https."""

    def __init__(self) -> None:
        super().__init__()
        self.max_redirects = MAX_REDIRECTS

    @override
    def get_redirect_target(self, resp: requests.Response) -> str | None:
        if resp.is_redirect:
            resp.close()  # requests would read the whole body
        there = super().get_redirect_target(resp)
        if there is not None:
            _check_scheme(resp.url, urllib.parse.urljoin(resp.url, there))
        return there


def get(session: requests.Session, address: Address, headers: Mapping[str, str]) -> Answer:
    """Request a file, also behind redirects and Google Drive's question before a large file.

    Raises:
        TryAgainError: The server cannot be reached or is busy.
        DownloadError: The server refuses the file for good.
    """
    with contextlib.ExitStack() as stack:
        answer = stack.enter_context(_get_once(session, address, headers))
        confirmed = confirmed_url(answer.page) if answer.status == 200 and answer.page else None
        if confirmed is None:
            stack.pop_all()
            return answer
    there = urllib.parse.urljoin(answer.url, confirmed)
    _check_scheme(answer.url, there)
    return _get_once(session, Address.parse(there), headers)


def _get_once(session: requests.Session, address: Address, headers: Mapping[str, str]) -> Answer:
    all_headers = {
        # Some hosts refuse the names of Python's libraries.
        "User-Agent": f"recordzoo/{recordzoo.__version__} (+https://recordzoo.github.io/recordzoo/)",
        "Accept-Encoding": "identity",  # a re-compressed body has other offsets
        **headers,
    }
    auth = None if address.login is None else requests.auth.HTTPBasicAuth(*address.login)
    timeout = settings.timeout_s() or None  # 0: no limit
    try:
        response = session.get(address.url, headers=all_headers, auth=auth, timeout=timeout, stream=True)
    except (requests.exceptions.RequestException, ValueError) as err:
        raise _failure(session, address.url, err) from None  # its text may show the login of a proxy
    try:
        _check_status(response)
    except BaseException:
        response.close()
        raise
    return Answer(response)


def _failure(session: requests.Session, url: str, err: Exception) -> Exception:
    """Return the error for a request without an answer."""
    url = public_url(getattr(getattr(err, "request", None), "url", None) or url)  # that of a redirect
    match err:
        case requests.exceptions.SSLError() if "CERTIFICATE_VERIFY_FAILED" in str(err):
            return DownloadError(
                f"{url}: the certificate of {host(url)} is not valid ({cause(err)}). If your network has a certificate "
                "authority of its own, name its file in REQUESTS_CA_BUNDLE; also check this machine's clock."
            )
        case requests.exceptions.SSLError():
            return TryAgainError(f"no secure connection to {host(url)} ({cause(err)})")
        case requests.exceptions.ProxyError():
            return _proxy_error(session, url, err)
        case requests.exceptions.Timeout():
            return TryAgainError(f"{host(url)} did not answer for {settings.timeout_s():g} s")
        case requests.exceptions.ConnectionError() | requests.exceptions.ChunkedEncodingError():
            return TryAgainError(f"no connection to {host(url)} ({cause(err)})")
    return DownloadError(f"{url!r} cannot be asked for: {public_text(str(err))}.")


def _proxy_error(session: requests.Session, url: str, err: requests.exceptions.ProxyError) -> Exception:
    """Return the error that names the failing proxy; a refusal by the proxy is final."""
    proxies = session.merge_environment_settings(url, {}, None, None, None)["proxies"]
    proxy = host(requests.utils.select_proxy(url, proxies) or "unknown")
    reason = cause(err)
    status = _TUNNEL_STATUS.search(reason)
    if status is None or not _is_final(int(status[1])):
        return TryAgainError(f"no connection to {host(url)} through the proxy {proxy} ({reason})")
    hint = (
        _PROXY_LOGIN if status[1] == "407" else "It may let other addresses through: try a mirror (RECORDZOO_MIRROR)."
    )
    return DownloadError(f"{url}: the proxy {proxy} answered {_status(int(status[1]))}. {hint}", status=int(status[1]))


def _check_scheme(here: str, there: str) -> None:
    """Refuse a redirect to what is not http, and one from https to http."""
    scheme = urllib.parse.urlsplit(there).scheme
    if scheme not in ("http", "https") or (here.startswith("https:") and scheme != "https"):
        raise DownloadError(
            f"{public_url(here)} redirects to {public_url(there)}; from https only https is followed, so that nobody "
            "on the way can exchange the file. Try a mirror (RECORDZOO_MIRROR)."
        )


def _check_status(response: requests.Response) -> None:
    url, status = public_url(response.url), response.status_code
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower() or "identity"
    if status in (200, 206) and encoding != "identity":
        raise DownloadError(
            f"{url}: sent with Content-Encoding {encoding}, though only the file's own bytes were asked for; it could "
            "not be resumed. A proxy may do that; try another network or a mirror (RECORDZOO_MIRROR)."
        )
    if status in (200, 206, 416):
        return
    if not _is_final(status):
        wait_s = retry_after_s(response.headers.get("Retry-After", ""))
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
