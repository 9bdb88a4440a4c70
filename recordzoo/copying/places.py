"""Resolve copy destinations: set names, directories, and manifests at URLs; `Claim` reserves an address for a push."""

import contextlib
import re
from pathlib import Path

from recordzoo.base.program import command
from recordzoo.errors import ArgumentError, NotPreparedError, OtherSourceError, RecordError, RemoteError
from recordzoo.net.failures import NOT_FOUND
from recordzoo.net.hub import HubDataset, is_bucket
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
from recordzoo.records.reader import RecordReader

_WITHOUT_HOST = ("file", "local", "memory")

CLAIM_NAME = "push.claim"
_DIGEST = re.compile(r"[0-9a-f]{16,128}")
_MAX_BYTES = 200


def destination(text: str, name: str) -> Url:
    """Return a set's URL: the given one if it ends in ``.records``, else one below it.

    Args:
        name: The set's name.
    """
    url = _parsed(text)
    if url.scheme in ("http", "https"):
        raise ArgumentError(f"{url} cannot be written to: a record set is pushed to s3://, gs://, az://, hf://.")
    if url.has_query:
        raise ArgumentError(f"{url} is followed by a query (?...): a record set is pushed to an address without one.")
    if url.scheme == "hf" and not (HubDataset.find(url.public) or is_bucket(url)):
        raise ArgumentError(
            f"{url} is no dataset and no bucket of the Hub: hf://datasets/USER/NAME or hf://buckets/USER/NAME."
        )
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


class Claim:
    """The right to write to an address until its manifest exists. Pushes of the same record set share one claim.

    A store with exclusive creation of files (S3, a disk) gives the claim to exactly one of several record sets.
    Elsewhere the last writer has the claim, and `is_ours` is False for the others.

    Args:
        digest: Digest of the record set being pushed.

    Attributes:
        is_held: Whether `take` succeeded.
    """

    def __init__(self, store: Store, digest: str) -> None:
        self._store, self._digest = store, digest
        self.is_held = False

    def take(self, *, replace: bool) -> None:
        """Create the claim file.

        Args:
            replace: Take the claim from another record set.
        """
        holder = self._holder()
        if replace and holder not in (None, self._digest):
            self._store.remove(CLAIM_NAME)
            holder = None
        if holder is None:
            self._store.create(CLAIM_NAME, self._digest.encode())
        if not self.is_ours():
            raise self.other()
        self.is_held = True

    def is_ours(self) -> bool:
        """Whether this record set still has the claim."""
        return self._holder() == self._digest

    def other(self) -> OtherSourceError:
        """Return the error for an address claimed by another record set."""
        holder = self._holder() or ""
        which = f" (digest {holder[:16]}...)" if _DIGEST.fullmatch(holder) else ""
        return OtherSourceError(
            f"Another record set{which} is being pushed to {self._store.url}, or its push was killed. Name another "
            "address, or wait for it; if no such push is running, pass --replace (replace=True).",
            url=str(self._store.url),
        )

    def release(self) -> None:
        """Remove the claim file if this push holds it; ignore failures: beside a manifest, a claim has no effect."""
        with contextlib.suppress(RemoteError):
            if self.is_held and self.is_ours():
                self._store.remove(CLAIM_NAME)

    def _holder(self) -> str | None:
        """Return the digest in the file; None if there is no claim."""
        try:
            return self._store.read(CLAIM_NAME, _MAX_BYTES).decode("ascii", "replace")
        except RemoteError as err:
            if err.status == NOT_FOUND:
                return None
            raise
