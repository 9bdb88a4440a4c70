"""Locate a record set and its raw data, once per opening."""

import contextlib
import functools
from dataclasses import dataclass, field
from pathlib import Path

from recordzoo.base.bars import default_progress
from recordzoo.base.progress import Progress
from recordzoo.errors import FolderError, SourceError
from recordzoo.preparing.changes import Changes, find_changes
from recordzoo.preparing.options import Options
from recordzoo.publish.output import behind_links
from recordzoo.raw.member import Source
from recordzoo.recipes.base import Recipe
from recordzoo.recipes.from_sets.variants import variant_recipe
from recordzoo.records.reader import RecordReader, is_record_set


@dataclass(frozen=True)
class Located:
    """A requested record set.

    Attributes:
        recipe: Its recipe, in the requested variant.
        root: Directory of the raw data, or of its download.
        options: The options.
        target: The set's directory, with links resolved.
        is_published: Whether it was there when it was located.
    """

    recipe: Recipe
    root: Path
    options: Options
    target: Path
    is_published: bool
    _found: list[Source] = field(default_factory=list, repr=False, compare=False)

    @functools.cached_property
    def progress(self) -> Progress:
        """Receives the progress."""
        return self.options.progress or default_progress()

    def source(self) -> Source | None:
        """Return the raw data, or None if there is none. A result is cached."""
        if not self._found and (source := self.recipe.find(self.root)) is not None:
            self._found.append(source)
        return self._found[0] if self._found else None

    def changes(self) -> Changes:
        """Compare all existing raw files with those that the published record set was made from."""
        now = None
        with contextlib.suppress(SourceError, FolderError):  # some cannot be listed; the others are compared
            source = self.source()
            now = None if source is None else source.files()
        return find_changes(RecordReader(self.target), self.root, full=True, now=now, progress=self.progress)

    @functools.cached_property
    def refresh(self) -> bool:
        """Whether an existing record set is rebuilt."""
        if self.options.refresh != "if-changed":
            return bool(self.options.refresh)
        if not self.is_published:
            return False
        return not self.recipe.is_of(RecordReader(self.target).manifest, self.root) or bool(self.changes())


def locate(recipe: Recipe, root: Path, options: Options) -> Located:
    """Locate a record set that exists or will be prepared.

    Args:
        recipe: The recipe of the original.
        root: Directory of the raw data, or of its download.

    Raises:
        ArgumentError: The variant does not exist, or this data has no variants.
        OtherSourceError: A variant occupies the place of the original.
    """
    if options.executor is not None:  # its workers may have another current directory
        root = root.absolute()
    recipe = variant_recipe(recipe, root, options.variant)
    target = behind_links(options.records_dir or recipe.target(root))
    return Located(recipe, root, options, target, is_record_set(target))
