"""Where a record set is, or will be, and what it is made of: found out once for each opening."""

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
from recordzoo.recipes.variants import variant_recipe
from recordzoo.records.reader import RecordReader, is_record_set


@dataclass(frozen=True)
class Located:
    """A record set that is asked for.

    Attributes:
        recipe: How it is made, in the variant that is asked for.
        root: Where its raw data is, or is downloaded to.
        options: How it is found or made.
        target: Its directory; not a link to it.
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
        """Return the raw data; None if it is not there. Once found, it is not looked for again.

        Raises:
            SourceError: Something of it is missing, or is not what it should be.
        """
        if not self._found and (source := self.recipe.find(self.root)) is not None:
            self._found.append(source)
        return self._found[0] if self._found else None

    def changes(self) -> Changes:
        """Compare all raw files, if there are any, with those that the published record set was made from."""
        now = None
        with contextlib.suppress(SourceError, FolderError):  # some cannot be listed; the others are compared
            source = self.source()
            now = None if source is None else source.files()
        return find_changes(RecordReader(self.target), self.root, full=True, now=now, progress=self.progress)

    @functools.cached_property
    def refresh(self) -> bool:
        """Whether a record set that is there is made again."""
        if self.options.refresh != "if-changed":
            return bool(self.options.refresh)
        if not self.is_published:
            return False
        return not self.recipe.is_of(RecordReader(self.target).manifest, self.root) or bool(self.changes())


def locate(recipe: Recipe, root: Path, options: Options) -> Located:
    """Find out where a record set is, or will be.

    Args:
        recipe: How the original is made.
        root: Where its raw data is, or is downloaded to.
        options: How it is found or made.

    Raises:
        ArgumentError: The variant does not exist, or there are none of this data.
        OtherSourceError: A variant is where the original should be.
    """
    if options.executor is not None:  # whose workers need not have this process's current directory
        root = root.absolute()
    recipe = variant_recipe(recipe, root, options.variant)
    target = behind_links(options.records_dir or recipe.target(root))
    return Located(recipe, root, options, target, is_record_set(target))
