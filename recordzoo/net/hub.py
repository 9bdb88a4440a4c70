"""The Hugging Face Hub: addresses of datasets and buckets, its client, and that client's errors."""

import contextlib
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recordzoo.errors import RemoteError
from recordzoo.net.failures import remote_error
from recordzoo.net.url import Url

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
        if (status := failure.status) in _NOT_SHOWN:
            may, cure = "read", "If it is private or gated, accept its terms on its page, and set HF_TOKEN or run"
            if doing == "written":
                may, cure = doing, "If it is yours, set HF_TOKEN to a token that may write, or run"
            what = f"there is no such dataset, or it may not be {may} (status {status}). {cure}: hf auth login"
            failure = RemoteError(f"{url} cannot be {doing}: {what}", url=str(url), status=status)
    if failure is not None:  # not within `except`: the other package's error may show a token
        raise failure


@contextlib.contextmanager
def without_bars() -> Iterator[None]:
    """Switch off the progress bars of huggingface_hub while the block sends to the Hub."""
    utils: Any = importlib.import_module("huggingface_hub.utils")  # it exports these functions, but not to mypy
    was_off = utils.are_progress_bars_disabled()
    utils.disable_progress_bars()
    try:
        yield
    finally:
        if not was_off:
            utils.enable_progress_bars()
