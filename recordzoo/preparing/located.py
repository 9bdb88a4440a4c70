"""Detect raw files that changed since a record set was made from them.

Works for sets made from a tree or a list of files. A full comparison checks all files; the quick one at each opening
checks a bounded number.
"""

import contextlib
import functools
import os
import random
import stat
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from recordzoo.base.files import open_through_links
from recordzoo.base.progress import Progress, default_progress
from recordzoo.base.text import name_first
from recordzoo.errors import FolderError, OtherSourceError, SourceError
from recordzoo.preparing.kinds import KnownDirectories, directory_positions, is_inside
from recordzoo.preparing.options import Options
from recordzoo.preparing.space import behind_links
from recordzoo.raw.member import FileTable, Source
from recordzoo.recipes.declared import find_name
from recordzoo.recipes.recipe import Recipe
from recordzoo.recipes.variant import variant_recipe
from recordzoo.records.kinds import SetKind
from recordzoo.records.made_from import MadeFrom, directory_of, relative_names
from recordzoo.records.manifest import NO_SHARD, ORIGINAL
from recordzoo.records.reader import RecordReader, is_record_set
from recordzoo.records.shard import crc32

_BLOCKS, _BLOCK_FILES = 16, 16
_WRITTEN_FILES = 1000
_CONTENTS = 16
_CHUNK_FILES = 4096
_NUM_NAMED = 3
_FILES_OF_A_SECOND = 20_000  # compared within a second

_warned: set[tuple[str, str]] = set()


@dataclass(frozen=True, slots=True)
class Changes:
    """Differences between raw files and those that a record set was made from. False if there are none.

    Attributes:
        root: The directory of the raw files.
        made_in: Their directory when the records were made; "" if unknown.
        found: The differences: "dog/1.jpg has another size".
        num_compared: Number of files compared.
        num_files: Number of files in total.
    """

    root: str
    made_in: str = ""
    found: Sequence[str] = ()
    num_compared: int = 0
    num_files: int = 0

    def __bool__(self) -> bool:
        return bool(self.found)

    @property
    def summary(self) -> str:
        """The first differences, and the number of further ones."""
        text = name_first(self.found, _NUM_NAMED)
        if self.num_compared < self.num_files:
            text += f" ({self.num_compared:,} of {self.num_files:,} files were compared)"
        return text


def find_changes(
    reader: RecordReader,
    root: Path,
    *,
    full: bool = False,
    now: FileTable | None = None,
    new_names: bool = True,
    progress: Progress | None = None,
) -> Changes:
    """Compare the raw files under `root`, if there are any, with those that a record set was made from.

    A file has changed if its size differs, or if its time and its content differ. Contents can be compared only if the
    set stores the files unmodified; otherwise a different time alone is a change, except in a tree that was moved.

    Args:
        root: The tree or the list. Missing files count as changes only in a tree of class folders: other raw files may
            be deleted after conversion.
        full: Compare all files, and the content of each with another time. Default: some hundred random files,
            including files of modified directories, and the content of up to 16.
        now: The current files, to detect new ones. Without it, new files are detected only in trees of class folders.
        new_names: Whether files missing from the set are changes.
        progress: Receives the progress of a full comparison.
    """
    base = directory_of(root)
    directories = KnownDirectories.of(reader)
    made_from = MadeFrom.of(reader)
    made_in = made_from.base if made_from is not None else directories.root if directories is not None else ""
    if directories is not None and not directories.any_exists(base):
        return Changes(base, made_in)
    found: dict[str, None] = {}
    written: Sequence[str] = ()
    if directories is not None:
        written, differences = directories.differences(reader, base, new_names=new_names)
        found.update(dict.fromkeys(differences))
    if made_from is None:
        return Changes(base, made_in, tuple(found))
    if now is not None and new_names:
        stored = set(made_from[:])
        found.update({f"{name} is new": None for name in relative_names(now, root) if name not in stored})
    runs = [(0, len(made_from))] if full else _some_runs(made_from, written)
    comparison = Comparison(
        reader,
        base,
        is_moved=made_in != base,
        counts_gone=directories is not None,  # elsewhere raw files may be deleted after conversion
        contents=None if full else _CONTENTS,
    )
    told = progress if full and len(made_from) >= _FILES_OF_A_SECOND else None
    if told is not None:
        told.begin(f"comparing {len(made_from):,} files with their records")
    for start, stop in _chunks(runs):
        found.update(dict.fromkeys(comparison.differences(made_from.files(start, stop))))
        if told is not None:
            told.advance(0, stop - start)
    if told is not None:
        told.end()
    return Changes(base, made_in, tuple(found), comparison.num_compared, len(made_from))


def recorded_changes(reader: RecordReader, *, full: bool = False, progress: Progress | None = None) -> Changes:
    """Compare the raw files that a record set says it was made from; see `find_changes`."""
    made_from = MadeFrom.of(reader)
    root = made_from.base if made_from is not None else ""
    if not os.path.isabs(root) or not os.path.isdir(root):
        return Changes(root)
    return find_changes(reader, Path(root), full=full, progress=progress)


def warn_of_changes(reader: RecordReader, changes: Changes, command: str, *, stacklevel: int) -> None:
    """Warn of changed raw files, once per directory and record set in a process.

    Args:
        command: The command line that prepares the set.
        stacklevel: As in `warnings.warn`, seen from the caller.
    """
    key = (changes.root, str(reader.path))
    if key not in _warned:
        _warned.add(key)
        warnings.warn(change_text(reader, changes, command), stacklevel=stacklevel + 1)


def change_text(reader: RecordReader, changes: Changes, command: str) -> str:
    """Describe the changes and the remedy."""
    return (
        f"{reader.path} is out of date: in {changes.root}, {changes.summary}. It is used as it is; to rebuild it, pass "
        f"refresh=True or run: {command} --refresh"
    )


def refuse_other(reader: RecordReader, changes: Changes) -> None:
    """Refuse records that were made from other files in another directory."""
    if changes and changes.made_in != changes.root:
        raise OtherSourceError(
            f"{reader.path} holds the records of {changes.made_in}, not of {changes.root}: {changes.summary}. "
            "Pass another records_dir, or none.",
            path=str(reader.path),
        )


def _some_runs(made_from: MadeFrom, written: Sequence[str]) -> list[tuple[int, int]]:
    """Choose runs of files: random blocks, and evenly spaced files of modified directories."""
    count = len(made_from)
    if count <= _BLOCKS * _BLOCK_FILES:
        return [(0, count)]
    rng = random.Random()  # leaves the program's global random state alone
    chosen = rng.sample(range(count // _BLOCK_FILES), _BLOCKS)
    runs = [(number * _BLOCK_FILES, (number + 1) * _BLOCK_FILES) for number in sorted(chosen)]
    places = [place for directory in written for place in directory_positions(made_from, directory)]
    return runs + [(place, place + 1) for place in places[:: -(-len(places) // _WRITTEN_FILES) or 1]]


def _chunks(runs: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for start, stop in runs:
        for low in range(start, stop, _CHUNK_FILES):
            yield low, min(stop, low + _CHUNK_FILES)


class Comparison:
    """Compares raw files with those that a record set was made from.

    Args:
        base: The directory that the files' names are relative to.
        is_moved: Whether the files were elsewhere when the records were made.
        counts_gone: Whether a missing file is a change.
        contents: Maximum number of files with another time to read; None: all.

    Attributes:
        num_compared: Number of files compared.
    """

    def __init__(
        self, reader: RecordReader, base: str, *, is_moved: bool, counts_gone: bool, contents: int | None
    ) -> None:
        self.num_compared = 0
        self._reader, self._base = reader, base
        self._is_moved, self._counts_gone, self._contents = is_moved, counts_gone, contents
        # Files of a list may be anywhere; in a tree, only forged names leave the root.
        self._is_list = reader.manifest.kind is SetKind.LIST
        image = reader.manifest.blobs.get("image")
        self._is_original = image is not None and image.encoding == "image" and reader.manifest.variant == ORIGINAL

    def differences(self, files: Iterable[tuple[str, int, int]]) -> Iterator[str]:
        """Yield the differences of files given as name, size and time."""
        for name, size, mtime in files:
            if "\0" in name or not (self._is_list or is_inside(name)):
                continue
            self.num_compared += 1
            path = os.path.join(self._base, name)
            try:
                status = os.stat(path)
            except OSError:
                if self._counts_gone:
                    yield f"{name} is gone"
                continue
            if status.st_size != size or not stat.S_ISREG(status.st_mode):
                yield f"{name} has another size"
            elif status.st_mtime_ns != mtime and not self._is_same(name, path):
                yield f"{name} was written to"

    def _is_same(self, name: str, path: str) -> bool:
        """Whether a file with another time still equals its stored bytes; assumed after `contents` files."""
        if self._contents is not None:
            if not self._contents:
                return True
            self._contents -= 1
        position = self._position(name) if self._is_original else None
        row = None if position is None else self._reader.array("image.index")[position]
        if row is None or row["shard"] == NO_SHARD:
            return self._is_moved  # the set does not store the file's bytes
        try:
            data = _read(path, int(row["length"]))
        except OSError:
            return False
        return data is not None and len(data) == row["length"] and crc32(data) == row["crc32"]

    def _position(self, name: str) -> int | None:
        """Return a raw file's position. The record's name is the file's name, perhaps without its first folders."""
        if self._reader.manifest.is_listed:
            return self._positions.get(name)
        names = self._reader.names  # in ImageFolder's order
        while name:
            position = find_name(names, name)
            if position is not None:
                return position
            name = name.partition("/")[2]
        return None

    @functools.cached_property
    def _positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self._reader.names)}


def _read(path: str, num_bytes: int) -> bytes | None:
    """Read up to `num_bytes` + 1 bytes of a regular file; None for anything else, such as a FIFO."""
    fd = open_through_links(path)
    with open(fd, "rb") as file:
        return file.read(num_bytes + 1) if stat.S_ISREG(os.fstat(fd).st_mode) else None


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
