"""Resolve copy destinations: set names, directories, and manifests at URLs."""

from pathlib import Path

from recordzoo.base.program import command
from recordzoo.errors import ArgumentError, NotPreparedError, RecordError, RemoteError
from recordzoo.net.failures import NOT_FOUND
from recordzoo.net.store import Store
from recordzoo.net.url import Url
from recordzoo.records.manifest import (
    ENDING,
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    Manifest,
    manifest_digest,
)
from recordzoo.records.parse import parse_manifest

_WITHOUT_HOST = ("file", "local", "memory")


def destination(text: str, name: str) -> Url:
    """Return a set's URL: the given one if it ends in ``.records``, else one below it.

    Args:
        text: The address.
        name: The set's name.
    """
    url = _parsed(text)
    if url.scheme in ("http", "https"):
        raise ArgumentError(f"{url} cannot be written to: a record set is pushed to s3://, gs://, az://, hf://.")
    if url.has_query:
        raise ArgumentError(f"{url} is followed by a query (?...): a record set is pushed to an address without one.")
    return url if url.name.endswith(ENDING) else url / with_ending(name)


def local_target(folder: Path, name: str) -> Path:
    """Return a set's directory: the given one if it ends in ``.records``, else one inside it."""
    folder = folder.expanduser().absolute()
    return folder if folder.name.endswith(ENDING) else folder / with_ending(name)


def with_ending(name: str) -> str:
    """Return a name that ends in ``.records``."""
    return name if name.endswith(ENDING) else f"{name}{ENDING}"


def read_manifest(store: Store) -> bytes | None:
    """Return the bytes of a manifest at a URL; None if there is none."""
    try:
        return store.read(MANIFEST_NAME, MAX_MANIFEST_BYTES + 1)
    except RemoteError as err:
        if err.status == NOT_FOUND:
            return None
        raise


def parsed(data: bytes, url: Url) -> tuple[Manifest, str]:
    """Return a manifest and the set's digest."""
    return parse_manifest(data, str(url / MANIFEST_NAME)), manifest_digest(data)


def digest_at(path: Path) -> str | None:
    """Return the digest of the record set in a directory; None without a readable manifest."""
    from recordzoo.records.reader import RecordReader

    try:
        return RecordReader(path).digest
    except RecordError:
        return None


def find_set(text: str) -> tuple[Url, bytes]:
    """Find the record set at an address, or the only one below it; return its URL and manifest.

    Raises:
        ArgumentError: The address is not a URL, or there are several record sets.
        NotPreparedError: There is no record set.
        RemoteError: The server cannot be reached.
    """
    url = _parsed(text)
    data = read_manifest(Store(url))
    if data is not None:
        return url, data
    names = [] if url.name.endswith(ENDING) else _sets_below(url)
    if len(names) > 1:
        shown = ", ".join(str(url / name) for name in names)
        raise ArgumentError(f"There are several record sets at {url}; name one: {shown}.")
    data = read_manifest(Store(url / names[0])) if names else None
    if data is None:
        raise NotPreparedError(
            f"There is no record set at {url}: it has no {MANIFEST_NAME}. Check the address; if the set was being "
            f"pushed, run the same command again: {command('push', 'SET', url)}",
            url=str(url),
        )
    return url / names[0], data


def _parsed(text: str) -> Url:
    url = Url.parse(text)
    if not url.name and url.scheme not in _WITHOUT_HOST:
        raise ArgumentError(f"{url} names no bucket or host. An address looks like s3://bucket/datasets.")
    return url


def _sets_below(url: Url) -> list[str]:
    """List the folders named ``*.records`` below an address; empty if the server cannot list."""
    try:
        return sorted(name for name in Store(url).folders() if name.endswith(ENDING))
    except RemoteError:
        return []
