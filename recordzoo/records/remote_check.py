"""Check the record set at a URL, at its server: the cache is neither read nor filled."""

import hashlib
import logging
import os
import tempfile
import weakref
from collections.abc import Sequence
from typing import IO

import numpy as np
from typing_extensions import override

from recordzoo.base.files import hash_text
from recordzoo.base.progress import Progress
from recordzoo.errors import CorruptRecordError, ManifestError, RecordError, RemoteError
from recordzoo.net.failures import NOT_FOUND, RANGE_NOT_SATISFIABLE
from recordzoo.net.store import Store
from recordzoo.net.url import Url
from recordzoo.records.checking import Check, Report
from recordzoo.records.manifest import MANIFEST_NAME, MAX_MANIFEST_BYTES, ShardSpec

logger = logging.getLogger("recordzoo")

_DAMAGE = (NOT_FOUND, RANGE_NOT_SATISFIABLE)
"""Statuses for a missing or too short file; all others say nothing about the record set."""


def verify_at_url(url: Url, full: bool, progress: Progress, max_problems: int | None) -> Report:
    """Implement `recordzoo.verify` for a URL.

    Raises:
        ManifestError: There is no manifest: it is not a record set.
        FormatVersionError: It has a later format.
        RemoteError: The server cannot be reached, or refuses access.
    """
    directory = _Streamed(url)
    try:
        os.close(directory.open(MANIFEST_NAME))
    except RemoteError as err:
        if err.status != NOT_FOUND:
            raise
        text = f"{url} is not a record set: it has no {MANIFEST_NAME}."
        raise ManifestError(text, path=str(url), status=NOT_FOUND) from None
    check = _RemoteCheck(directory, progress, max_problems)
    check.run(full)
    return check.report


class _Streamed:
    """The files at a URL for `Check`: each is fetched once, into an unnamed temporary file."""

    def __init__(self, url: Url) -> None:
        self.path, self.store = url, Store(url)
        self._sizes: dict[str, int] | None = None
        self._fetched: dict[str, IO[bytes]] = {}

    def listed(self) -> dict[str, int]:
        """Return the sizes of the files at the URL; empty if the server cannot list them."""
        if self._sizes is None:
            try:
                self._sizes = self.store.list()
            except RemoteError:
                self._sizes = {}
        return self._sizes

    def size(self, name: str) -> int | None:
        """Return the size of a file; None if it is missing, or the server does not say."""
        return self.listed().get(name) or self.store.size(name)

    def open(self, name: str, size_bytes: int | None = None) -> int:
        """Fetch a file and return its descriptor."""
        if name not in self._fetched:
            file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as this object
            weakref.finalize(self, file.close)
            if size_bytes is None:
                file.write(self.store.read(name, MAX_MANIFEST_BYTES + 1))
            else:
                self.check_size(name, size_bytes)
                for piece in self.store.pieces(name, size_bytes):
                    file.write(piece)
            file.flush()
            self._fetched[name] = file
        return os.dup(self._fetched[name].fileno())

    def check_size(self, name: str, size_bytes: int) -> None:
        """Refuse a file of another size."""
        found = self.size(name)
        if found != size_bytes:
            what = "is missing" if found is None else f"has {found:,} bytes instead of {size_bytes:,}"
            raise CorruptRecordError(f"{self.path / name} {what}.", path=str(self.path / name))

    def drop(self, name: str) -> bool:
        """Return False: there are no cached copies."""
        return False


class _RemoteCheck(Check):
    """One run of `verify` over a URL."""

    def __init__(self, directory: _Streamed, progress: Progress, max_problems: int | None) -> None:
        super().__init__(directory, progress, max_problems)
        self.there = directory

    @override
    def error(self, where: str, err: OSError | MemoryError) -> None:
        """Report a file that is missing or cut; raise other errors of the server."""
        if isinstance(err, RemoteError) and err.status not in _DAMAGE:
            raise err
        super().error(where, err)

    @override
    def listed(self) -> set[str]:
        return set(self.there.listed())

    @override
    def read_head(self, spec: ShardSpec) -> bytes:
        self.there.check_size(spec.name, spec.size_bytes)
        return self.there.store.read_range(spec.name, 0, min(2 * spec.page_size, spec.size_bytes), spec.size_bytes)

    @override
    def check_shards(self, numbers: Sequence[int], manifest: bytes) -> None:
        for number in numbers:
            spec = self.manifest.shards[number]
            state = hashlib.sha256()
            try:
                for data in self.there.store.pieces(spec.name, spec.size_bytes):
                    state.update(data)
                    self.progress.advance(len(data))
            except RecordError as err:
                self.error(spec.name, err)
                continue
            self.count(0, spec.size_bytes)
            if hash_text(state) != spec.hash:
                self.problem(spec.name, "its hash is not the one in the manifest; it was damaged or replaced")
                continue
            values = sum(int(np.count_nonzero(index["shard"] == number)) for index in self.indices.values())
            self.count(0, 0, values)  # the shard's hash proves their bytes
