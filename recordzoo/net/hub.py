"""Interpret errors of a file system: whether a retry may help, and the `RemoteError` that tells what helps."""

import contextlib
import datetime
import errno
import importlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recordzoo.base import settings
from recordzoo.base.settings import is_installed
from recordzoo.base.text import public_text
from recordzoo.errors import RemoteError
from recordzoo.net.http import retry_after_s
from recordzoo.net.url import Url

EXTRAS = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gcs",
    "gcs": "gcs",
    "az": "azure",
    "abfs": "azure",
    "abfss": "azure",
    "adl": "azure",
    "hf": "hf",
    "http": "http",
    "https": "http",
}
"""Scheme -> the extra that installs its file system."""

NOT_FOUND = 404
RANGE_NOT_SATISFIABLE = 416
_REFUSED = (401, 403, 407)
_PASSING = (408, 425, 429)
_PASSING_ERRNOS = (
    errno.EIO,
    errno.EBUSY,
    errno.EAGAIN,
    errno.EINTR,
    errno.ETIMEDOUT,
    errno.ECONNRESET,
    errno.ECONNREFUSED,
    errno.ECONNABORTED,
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
    errno.EPIPE,
)
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
            return retry_after_s(found.get("retry-after", ""), datetime.datetime.now(datetime.UTC))
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
    if isinstance(err, OSError) and err.errno is not None:
        return err.errno in _PASSING_ERRNOS
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
        text = f"{url} cannot be {doing}: there is no such bucket. Check the address, or create the bucket."
        return RemoteError(text, url=str(url), status=None)  # no status: for callers, 404 means a missing file
    if isinstance(err, ImportError):
        extra = EXTRAS.get(url.scheme)
        cure = f"Run: pip install 'recordzoo[{extra}]'" if extra else "Install the package that fsspec needs for it."
        text = f"{url} cannot be {doing}: {url.scheme}:// needs another package. {cure}"
        return RemoteError(text, url=str(url), status=None)
    if status == NOT_FOUND:
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


if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_DATASET = re.compile(
    r"hf://datasets/(?P<repository>[^/@]+/[^/@]+)(?:@(?P<revision>refs/(?:convert|pr)/[^/]+|[^/]+))?(?:/(?P<folder>.*))?"
)
_BUCKET = re.compile(r"hf://buckets/(?P<bucket>[^/@]+/[^/@]+)(?:/(?P<path>.*))?")
_NOT_SHOWN = (401, 403, 404)


@dataclass(frozen=True, slots=True)
class HubDataset:
    """A folder or file in a dataset's repository.

    Attributes:
        repository: "USER/NAME".
        revision: A branch, tag or commit; "" for the default branch.
        folder: The path in the repository; "" for its root.
    """

    repository: str
    revision: str = ""
    folder: str = ""

    @classmethod
    def find(cls, address: str) -> "HubDataset | None":
        """Parse ``hf://datasets/USER/NAME@REVISION/FOLDER``; None if the address is another one."""
        match = _DATASET.fullmatch(address.rstrip("/"))
        if match is None:
            return None
        return cls(match["repository"], (match["revision"] or "").replace("%2F", "/"), match["folder"] or "")


def is_bucket(url: Url) -> bool:
    """Whether a URL is in a bucket of the Hub."""
    return _BUCKET.fullmatch(url.public) is not None


def check_buckets(url: Url) -> None:
    """Raise if a URL is in a bucket and the installed huggingface_hub knows none.

    Raises:
        RemoteError: It is older than 1.6.
    """
    if is_bucket(url) and is_installed("huggingface_hub"):
        from huggingface_hub import HfApi

        if not hasattr(HfApi, "batch_bucket_files"):
            text = f"{url} cannot be opened: buckets need huggingface_hub 1.6. Run: pip install -U huggingface_hub"
            raise RemoteError(text, url=str(url), status=None)


def put_in_bucket(fs: "AbstractFileSystem", path: Path, url: Url) -> None:
    """Upload a file to a bucket. The file system itself would first copy it to the directory of temporary files."""
    match = _BUCKET.fullmatch(url.public)
    assert match is not None
    api_of(fs).batch_bucket_files(match["bucket"], add=[(path, match["path"])])
    fs.invalidate_cache()


def api_of(fs: Any) -> Any:  # Any: fsspec's type has neither endpoint nor token; the client's types change
    """Return the client with the endpoint and token of a file system of the Hub."""
    from huggingface_hub import HfApi

    return HfApi(endpoint=fs.endpoint, token=fs.token)


@contextlib.contextmanager
def asking(url: Url, doing: str) -> Iterator[None]:
    """Turn what huggingface_hub raises into a `RemoteError`, which shows no token.

    Args:
        url: What is asked for.
        doing: The attempted operation: "read", "written", "listed".
    """
    failure = None
    try:
        yield
    except RemoteError:
        raise
    except Exception as err:  # noqa: BLE001 - it raises errors of several packages
        wrapped = isinstance(err, RuntimeError) and isinstance(err.__cause__, Exception)  # "Error while uploading"
        failure = remote_error(err.__cause__ if wrapped and err.__cause__ else err, url, doing)
        if failure.status in _NOT_SHOWN:
            may, cure = "read", "If it is private or gated, accept its terms on its page, and set HF_TOKEN or run"
            if doing == "written":
                may, cure = doing, "If it is yours, set HF_TOKEN to a token that may write, or run"
            failure = RemoteError(
                f"{url} cannot be {doing}: there is no such dataset, or it may not be {may} (status "
                f"{failure.status}). {cure}: hf auth login",
                url=str(url),
                status=failure.status,
            )
    if failure is not None:  # not within `except`: the other package's error may show a token
        raise failure


@contextlib.contextmanager
def without_bars(url: Url) -> Iterator[None]:
    """Switch off the progress bars of huggingface_hub while the block sends to the Hub."""
    if url.scheme != "hf":
        yield
        return
    utils: Any = importlib.import_module("huggingface_hub.utils")  # it exports these functions, but not to mypy
    was_off = utils.are_progress_bars_disabled()
    if not was_off:
        utils.disable_progress_bars()
    try:
        yield
    finally:
        if not was_off:
            utils.enable_progress_bars()
