"""One HTTP request: redirects by recordzoo's rules, and explained refusals."""

import datetime
import http
import importlib.metadata
import re
import urllib.parse
from collections.abc import Generator, Mapping
from typing import Any

import requests

from recordzoo.base import settings
from recordzoo.base.addresses import Address, host, public_text
from recordzoo.errors import DownloadError
from recordzoo.net.answer import Answer, cause
from recordzoo.net.retry import TryAgainError, retry_after_s

MAX_REDIRECTS = 5
_RETRIED = {408, 425, 429}
_PROXY_LOGIN = "Your proxy wants a login: HTTPS_PROXY=http://user:password@host:port."
_TUNNEL_STATUS = re.compile(r"Tunnel connection failed: (\d{3})")


class Session(requests.Session):
    """Carries connections and cookies from one request to the next."""

    def resolve_redirects(self, *_args: Any, **_kwargs: Any) -> Generator[requests.Response]:  # Any: unused
        """Return nothing: `get` follows redirects. requests would read the whole body of each."""
        yield from ()


def get(session: requests.Session, address: Address, headers: Mapping[str, str]) -> Answer:
    """Request a file. Follow at most `MAX_REDIRECTS` redirects, and none from https to another scheme.

    Google Drive's question before a large file is answered like a redirect.

    Raises:
        TryAgainError: The server cannot be reached or is busy.
        DownloadError: The server refuses the file for good.
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
    """Return the target of a redirect; None for any other answer."""
    try:
        location = session.get_redirect_target(response)
        return None if location is None else here.redirected(location)
    except ValueError as err:  # not UTF-8, or not a URL
        raise DownloadError(f"{here}: the server redirects to something that is no address ({err}).") from err


def _get_once(session: requests.Session, address: Address, headers: Mapping[str, str]) -> requests.Response:
    url, login = address.url, address.login
    all_headers = {
        # Some hosts refuse the names of Python's libraries.
        "User-Agent": f"recordzoo/{_version()} (+https://recordzoo.github.io/recordzoo/)",
        "Accept-Encoding": "identity",  # a re-compressed body has other offsets
        **headers,
    }
    timeout = settings.timeout_s() or None  # 0: no limit
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
            raise TryAgainError(f"no secure connection to {host(url)} ({cause(err)})") from err
        raise DownloadError(
            f"{url}: the certificate of {host(url)} is not valid ({cause(err)}). If your network has a certificate "
            "authority of its own, name its file in REQUESTS_CA_BUNDLE; also check this machine's clock."
        ) from err
    except requests.exceptions.ProxyError as err:
        raise _proxy_error(session, url, err) from err
    except requests.exceptions.Timeout as err:
        raise TryAgainError(f"{host(url)} did not answer for {settings.timeout_s():g} s") from err
    except (requests.exceptions.ConnectionError, requests.exceptions.ChunkedEncodingError) as err:
        raise TryAgainError(f"no connection to {host(url)} ({cause(err)})") from err
    except (requests.exceptions.RequestException, ValueError) as err:
        shown = public_text(str(err))
        # Chain the error only if its text shows no login of a proxy.
        raise DownloadError(f"{url!r} cannot be asked for: {shown}.") from (err if shown == str(err) else None)


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


def _version() -> str:
    try:
        return importlib.metadata.version("recordzoo")
    except importlib.metadata.PackageNotFoundError:  # run from a checkout
        return "0"
