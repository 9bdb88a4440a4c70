"""`Shards`: the shard files of a local record set, opened on first use."""

import itertools
import weakref
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.arrays import AnyArray
from recordzoo.errors import RecordError
from recordzoo.records.files import AnyDirectory, Lease, pread, shard_files
from recordzoo.records.manifest import ShardSpec
from recordzoo.system.files import DONT_NEED, WILL_NEED, advise

_tokens = itertools.count()


class Shards:
    """The shards of a record set, in its directory.

    Args:
        directory: Opens them.
        specs: The shards' entries in the manifest.
    """

    def __init__(self, directory: AnyDirectory, specs: Sequence[ShardSpec]) -> None:
        self._directory, self.specs = directory, specs
        self._token = next(_tokens)
        weakref.finalize(self, shard_files.drop, self._token)

    def read(self, number: int, length: int, offset: int) -> bytes:
        """Return bytes of a shard; fewer only at its end.

        Raises:
            RecordError: It cannot be opened.
            OSError: It cannot be read.
        """
        lease = self._lease(number)
        try:
            return pread(lease.fd, length, offset)
        finally:
            shard_files.release(lease)

    def read_again(self, number: int, length: int, offset: int) -> bytes | None:
        """Return damaged bytes from their original source; None if there is no source.

        Raises:
            RecordError: The source cannot be read.
        """
        return None

    def hint(self, rows: AnyArray) -> None:
        """Prefetch values with the kernel; `read` reports a shard that cannot be opened."""
        self._advise_values(rows)

    def will_need(self, rows: AnyArray) -> None:
        """Do as `hint`, for values that another process of this machine may read."""
        self._advise_values(rows)

    def forget(self, rows: AnyArray) -> None:
        """Drop values from the kernel's page cache; pages shared with other values are kept."""
        if advise is None:
            return
        for number in np.unique(rows["shard"]).tolist():
            here = np.sort(rows[rows["shard"] == number], order="offset")
            begins, ends = here["offset"], here["offset"] + here["length"]
            apart = begins[1:] >= ends[:-1] + self.specs[number].page_size
            first, last = np.append(True, apart), np.append(apart, True)
            self._advise(number, begins[first], ends[last], DONT_NEED)

    def _advise_values(self, rows: AnyArray) -> None:
        if advise is None:
            return
        for number in np.unique(rows["shard"]).tolist():
            here = rows[rows["shard"] == number]
            self._advise(number, here["offset"], here["offset"] + here["length"], WILL_NEED)

    def _advise(self, number: int, begins: NDArray[np.uint64], ends: NDArray[np.uint64], advice: int) -> None:
        """Advise the kernel on ranges of a shard; `read` reports a shard that cannot be opened."""
        try:
            lease = self._lease(number)
        except RecordError:
            return
        size = self.specs[number].size_bytes
        assert advise is not None
        try:
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
                if begin <= end <= size:  # a forged offset may overflow
                    advise(lease.fd, begin, end - begin, advice)
        finally:
            shard_files.release(lease)

    def _lease(self, number: int) -> Lease:
        return shard_files.acquire((self._token, number), self._open)

    def _open(self, number: int) -> int:
        spec = self.specs[number]
        return self._directory.open(spec.name, spec.size_bytes)
