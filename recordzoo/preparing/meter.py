"""Report the progress of a conversion in bytes of raw data; each unit counts with exactly its size."""

import contextlib
import os
import time
from collections.abc import Callable, Sequence, Set
from pathlib import Path

from recordzoo.base.progress import Progress
from recordzoo.preparing.rows import UnitDone

_SHARDS = (".tmp", ".lmdb")
_EVERY_S = 0.25
_LOOK_S = 1.0
"""Time limit of one look; it then stops before the next file."""

_REST = 19
"""The pause after a look, as a multiple of the look's duration."""


class UnitProgress:
    """Reports the progress of one unit that this process converts.

    Args:
        size_bytes: The unit's size. It may be an estimate: its members may have more or fewer bytes.
        progress: Receives the progress.
    """

    def __init__(self, size_bytes: int, progress: Progress) -> None:
        self._left, self._progress = size_bytes, progress

    def advance(self, num_bytes: int, num_images: int) -> None:
        """Count bytes read and images stored."""
        counted = min(num_bytes, self._left)
        self._left -= counted
        self._progress.advance(counted, num_images)

    def finish(self) -> None:
        """Count the rest of the unit as done."""
        self.advance(self._left, 0)


class PoolProgress:
    """Reports the progress of units in other processes, from the size of their shards.

    It needs no channel to the workers, so it works with any executor. Looking takes at most a twentieth of the time:
    with 1,000 units on a network drive, one look may take seconds.

    Args:
        folder: The build directory.
        expansion: Bytes in shards for each byte of raw data, as estimated; corrected by the units that are finished.
        progress: Receives the progress.
        clock: Returns the time in seconds.
    """

    def __init__(
        self, folder: Path, expansion: float, progress: Progress, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder, self._expansion, self._progress, self._clock = folder, expansion, progress, clock
        self._told: dict[int, int] = {}
        self._raw_bytes = self._shard_bytes = 0
        self._next_look = 0.0

    def finished(self, unit: UnitDone, size_bytes: int, num_images: int) -> None:
        """Count a finished unit.

        Args:
            unit: The unit.
            size_bytes: The size of its raw data.
            num_images: Images stored since the last count.
        """
        self._progress.advance(size_bytes - self._told.pop(unit.unit, 0), num_images)
        self._raw_bytes += size_bytes
        self._shard_bytes += sum(shard.size_bytes for shard in unit.shards)

    def look(self, running: Sequence[tuple[int, int]]) -> None:
        """Report the bytes written since the last look, if the next look is due.

        Args:
            running: Number and size in bytes of each running unit.
        """
        begin = self._clock()
        if begin < self._next_look or not running:
            return
        written = self._written({number for number, _ in running}, begin + _LOOK_S)
        end = self._clock()
        self._next_look = end + max(_EVERY_S, _REST * (end - begin))
        expansion = self._shard_bytes / self._raw_bytes if self._raw_bytes and self._shard_bytes else self._expansion
        for number, size_bytes in running:
            before = self._told.get(number, 0)
            estimate = int(written.get(number, 0) / expansion) if expansion > 0 else 0
            now = max(before, min(size_bytes, estimate))
            self._told[number] = now
            self._progress.advance(now - before)

    def _written(self, running: Set[int], until: float) -> dict[int, int]:
        """Add up the shards of each running unit, finished or not; other processes write to the directory.

        The rest is left out when the time is up: a look blocks handing out and journalling units.
        """
        written: dict[int, int] = {}
        with os.scandir(self._folder) as entries:
            for entry in entries:
                number = entry.name[1:].partition("-s")[0]
                is_shard = entry.name.startswith("u") and number.isdecimal() and entry.name.endswith(_SHARDS)
                if is_shard and int(number) in running:  # no stat of other files: each is a round trip
                    if self._clock() > until:
                        break
                    with contextlib.suppress(OSError):
                        written[int(number)] = written.get(int(number), 0) + entry.stat().st_size
        return written
