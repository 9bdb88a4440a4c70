"""Build a record set that shares the shards of others, or rebuild a damaged one."""

import os
from pathlib import Path

from recordzoo.base.progress import Progress, format_bytes
from recordzoo.errors import NotPreparedError, OtherSourceError, RecordZooError
from recordzoo.publish.build import Build
from recordzoo.publish.output import ANOTHER_PATH, Output, behind_links
from recordzoo.publish.publishing import publish
from recordzoo.publish.space import volume
from recordzoo.recipes.combined.linked import SharedShards, write_linked
from recordzoo.recipes.combined.recipe import CombinedRecipe
from recordzoo.records.manifest import VERSION
from recordzoo.records.reader import is_record_set

WRITER = 1
"""Part of the plan. Raise it when the same sets give other bytes."""


class LinkJob:
    """Builds one set.

    Args:
        recipe: Takes all records from sets on this machine.
        progress: Receives the progress, and a note on copied shards.
        replace: Replace the existing record set.
        digest: The digest of the damaged set: only a set with this digest replaces it.
    """

    def __init__(self, recipe: CombinedRecipe, progress: Progress, *, replace: bool = False, digest: str = "") -> None:
        self.recipe, self.progress, self._replace, self._digest = recipe, progress, replace, digest
        self.target = behind_links(recipe.output)

    def run(self) -> bool:
        """Build the set; return False if another process built it.

        Raises:
            RecordError: One of the sets was replaced since it was opened.
            CorruptRecordError: A file of a set is damaged. Nothing is published.
            NotPreparedError: A set no longer exists.
            OtherSourceError: The result has another digest than expected.
            PrepareError: The disk failed, or something else is at the set's path.
        """
        return publish(
            Output(self.target, elsewhere=ANOTHER_PATH),
            lambda: bool(self._digest) or is_record_set(self.target),
            self.progress,
            self._write,
            again=self._replace or bool(self._digest),
            may_replace=self._may_replace,
        )

    def _may_replace(self, path: Path) -> bool:
        return os.path.lexists(path) if self._digest else self._replace and is_record_set(path)

    def _write(self, build: Build) -> None:
        source = self.recipe.find(self.target.parent)
        if source is None:
            raise NotPreparedError(f"{self.target}: not all of {', '.join(self.recipe.looked_for(Path()))} are there.")
        plan = {"writer": WRITER, "format": VERSION, "source": source.fingerprint(), "options": self.recipe.made_of}
        build.claim(plan, self._needed_bytes())
        try:
            copied = self._fill(build)
        except RecordZooError:  # not a disk error: the same command would fail again
            build.remove()
            raise
        if copied:
            self.progress.note(
                f"{format_bytes(copied)} of shards were copied, not linked: {self.target.parent} is on another file "
                "system than they are, or has no hard links, or they belong to another user."
            )

    def _fill(self, build: Build) -> int:
        """Write the set into the build; return the number of bytes copied from shards."""
        shards = SharedShards(self.recipe.parts)

        def told(size_bytes: int) -> None:
            build.check()
            self.progress.advance(size_bytes)

        self.progress.begin(f"linking shards of {self.target.name}", shards.size_bytes)
        copied = shards.link(build.set, told)
        self.progress.end()
        digest = write_linked(self.recipe, shards, build.set)
        if self._digest and digest != self._digest:
            raise OtherSourceError(
                f"{self.target}: the sets that it was made of give another record set. Nothing was replaced.",
                path=str(self.target),
            )
        return copied

    def _needed_bytes(self) -> int:
        """Estimate the bytes to write: arrays, and shards from other file systems."""
        here, needed = volume(self.target.parent), 0
        for part in self.recipe.parts:
            manifest = part.reader.manifest
            needed += sum(array.size_bytes for array in manifest.arrays.values())
            if part.reader.folder.stat().st_dev != here:
                needed += sum(shard.size_bytes for shard in manifest.shards)
        return needed
