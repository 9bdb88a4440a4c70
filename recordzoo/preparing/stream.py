"""Build a record set from values that a program passes one by one: one unit, which cannot be resumed."""

from collections.abc import Iterable

from recordzoo.base.progress import Progress
from recordzoo.preparing.assemble import assemble, warn_of_bad
from recordzoo.preparing.journal import Journal
from recordzoo.preparing.rows import UnitDone, save_sidecars
from recordzoo.preparing.shards import UnitShards
from recordzoo.publish.build import Build
from recordzoo.recipes.base import Blob, Recipe, Sidecar
from recordzoo.recipes.jpeg import look


class Stream(UnitShards):
    """The shards of a build, filled by a program; a context manager, as `UnitShards`.

    Args:
        build: The claimed build.
        shard_bytes: Target shard size in bytes.
        progress: For the journal, which reports nothing: nothing is resumed.
    """

    def __init__(self, build: Build, shard_bytes: int, progress: Progress) -> None:
        self._journal = Journal(build, progress)
        self._sidecars: dict[str, bytes] = {}
        self._bad: dict[str, str] = {}
        super().__init__(build.path, 0, shard_bytes, on_shard=self._journal.add_shard)

    def add(self, name: str, blobs: Iterable[Blob], sidecars: Iterable[Sidecar]) -> None:
        """Store the values of a record.

        Raises:
            OSError: The disk is full, or failed.
        """
        for blob in blobs:
            problem, mark = look(blob.data) if blob.checked else (None, None)
            self.put(blob, mark)
            if problem is not None:
                self._bad[name] = problem
        self._sidecars |= {side.name: side.data for side in sidecars}

    def take_sidecars(self) -> dict[str, bytes]:
        """Return and forget the added side files: the caller writes them in another way."""
        found, self._sidecars = self._sidecars, {}
        return found

    def assemble(self, recipe: Recipe, sidecars: Iterable[Sidecar]) -> None:
        """Assemble the set after all shards are finished.

        Args:
            recipe: Arranges the records.
            sidecars: The last ones.
        """
        self._sidecars |= {side.name: side.data for side in sidecars}
        digest = save_sidecars(self._journal.path, 0, self._sidecars)
        self._journal.add_units([UnitDone(0, tuple(self.done), digest, self._bad, {})])
        assemble(self._journal, recipe, "records", [])
        warn_of_bad(self._journal)
