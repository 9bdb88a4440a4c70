"""Interpret errors of a file system: whether a retry may help, and the `RemoteError` that tells what helps."""

import re
from collections.abc import Iterator, Mapping

from recordzoo.base import settings
from recordzoo.base.text import public_text
from recordzoo.errors import RemoteError
from recordzoo.net.http import retry_after_s
from recordzoo.net.url import Url

EXTRAS = {
    "s3": ("s3", "s3a"),
    "gcs": ("gs", "gcs"),
    "azure": ("az", "abfs", "abfss", "adl"),
    "hf": ("hf",),
    "http": ("http", "https"),
}
"""Extra -> the schemes whose file systems it installs."""

NOT_FOUND = 404
RANGE_NOT_SATISFIABLE = 416
_REFUSED = (401, 403, 407)
_PASSING = (408, 425, 429)
_FOR_EVER = (PermissionError, FileNotFoundError, IsADirectoryError, NotADirectoryError, FileExistsError)
_QUERY = re.compile(r"(\w+://[^\s'\"?<>]*)\?[^\s'\"<>)]*")
_STATUS = re.compile(r"HTTP status client error \((\d{3}) ")  # hf_xet's errors have it only in their text
_NO_BUCKET = re.compile(
    r"NoSuchBucket|ContainerNotFound|BucketNotFoundError|(bucket|container) does not exist", re.IGNORECASE
)
_MAX_TEXT = 300


def status_of(err: BaseException) -> int | None:
    """Return the HTTP status that caused an error; None if there is none."""
    for each in _chain(err):
        response = getattr(each, "response", None)
        if isinstance(response, dict):  # botocore's
            response = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        else:
            response = getattr(response, "status_code", None)
        for found in (getattr(each, "status", None), getattr(each, "status_code", None), response):
            if isinstance(found, int) and 100 <= found < 600:
                return found
        if said := _STATUS.search(str(each)):
            return int(said[1])
    # Older versions of huggingface_hub raise the latter for an empty bucket, without a status.
    is_missing = isinstance(err, FileNotFoundError) or type(err).__name__ == "EntryNotFoundError"
    return NOT_FOUND if is_missing else None


def asked_pause_s(err: BaseException) -> float | None:
    """Return the seconds in the server's Retry-After header; None without the header."""
    for each in _chain(err):
        response = getattr(each, "response", None)
        if isinstance(response, dict):  # botocore's
            headers = response.get("ResponseMetadata", {}).get("HTTPHeaders")
        else:
            headers = getattr(each, "headers", None) or getattr(response, "headers", None)
        if isinstance(headers, Mapping):
            found = {str(name).lower(): str(value) for name, value in headers.items()}
            return retry_after_s(found.get("retry-after", ""))
    return None


def check_online(url: Url) -> None:
    """Raise if the network is switched off.

    Raises:
        RemoteError: RECORDZOO_OFFLINE is set.
    """
    if settings.offline():
        raise RemoteError(f"{url} cannot be reached: RECORDZOO_OFFLINE is set.", url=str(url), status=None)


def may_pass(err: BaseException) -> bool:
    """Whether the same request may succeed a moment later."""
    if _is_refused(err) or isinstance(err, ImportError):
        return False
    if isinstance(err, TimeoutError | ConnectionError):
        return True
    status = status_of(err)
    if status is not None:
        return status in _PASSING or status >= 500
    if isinstance(err, _FOR_EVER):
        return False
    # Clients of stores raise errors of their own; ValueError and the like are no errors of a network.
    return isinstance(err, OSError | EOFError) or type(err).__module__ != "builtins"


def remote_error(err: BaseException, url: Url, doing: str) -> RemoteError:
    """Return the error to raise; it shows no login and no signature.

    Args:
        err: What a file system raised.
        url: The file or folder.
        doing: The attempted operation: "read", "written", "listed".
    """
    status = status_of(err)
    if status == NOT_FOUND and any(_NO_BUCKET.search(f"{type(each).__name__} {each}") for each in _chain(err)):
        status = None  # for callers, 404 means a missing file
        what, cure = "there is no such bucket", "Check the address, or create the bucket."
    elif isinstance(err, ImportError):
        extra = next((extra for extra, schemes in EXTRAS.items() if url.scheme in schemes), None)
        status, what = None, f"{url.scheme}:// needs another package"
        cure = f"Run: pip install 'recordzoo[{extra}]'" if extra else "Install the package that fsspec needs for it."
    elif status == NOT_FOUND:
        what, cure = "there is no such file", "Check the address."
    elif status == RANGE_NOT_SATISFIABLE:
        what, cure = "it is shorter than it was", "It was replaced, or was not written completely."
    elif _is_refused(err):
        what = f"access was refused ({_text(err, url)})"
        cure = (
            "Check the credentials, which may have expired: they come from the environment or from fsspec's "
            "configuration."
        )
    elif isinstance(err, TimeoutError):
        what, cure = "the server did not answer in time", "Try again, or set RECORDZOO_TIMEOUT to more seconds."
    else:
        what, cure = _text(err, url), "Try again." if may_pass(err) else ""
    return RemoteError(f"{url} cannot be {doing}: {what}. {cure}".strip(), url=str(url), status=status)


def _is_refused(err: BaseException) -> bool:
    """Whether credentials are missing, wrong or expired."""
    if isinstance(err, PermissionError) or status_of(err) in _REFUSED:
        return True
    names = [type(each).__name__ for each in _chain(err)]
    return any("Credential" in name or "TokenRetrieval" in name or "SSOToken" in name for name in names)


def _chain(err: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = err
    for _ in range(8):
        if found is None:
            return
        yield found
        found = found.__cause__


def _text(err: BaseException, url: Url) -> str:
    """Format another package's error as one line, without secrets."""
    text = url.without_secret(public_text(_QUERY.sub(r"\1", str(err) or type(err).__name__)))
    line = " ".join(text.split())
    return (line if len(line) <= _MAX_TEXT else f"{line[:_MAX_TEXT]}...").rstrip(". ")
