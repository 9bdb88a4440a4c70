"""`Listing`: samples that a list or annotation files name, in columns; the source of its files; its recipe."""

import functools
import json
import os
import stat
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.base.text import JSON, MAX_SHOWN, NUM_SHOWN, name_first, shorten
from recordzoo.errors import NotPreparedError
from recordzoo.raw.member import FileTable, Member, SizedSource, Source, Unit
from recordzoo.raw.tree import tree_unit
from recordzoo.recipes.recipe import Blob, Recipe, Stored, Table
from recordzoo.records.manifest import BlobSpec, FieldSpec

Note = tuple[str, bytes]
"""A value that is not a file: the member's name and content."""

_MARK = "\0"  # in a member's name, behind its field; a file that is only compared has none
_OUTSIDE = "it leads out of the list's directory; if you trust the list, pass --allow-paths (allow_paths=True)"


# Any, here and below: of several dtypes.
@dataclass(frozen=True)
class Column:
    """A field of N samples.

    Attributes:
        spec: The meaning of the values.
        values: N of them: an array [N, ...]; or texts, JSON as bytes, or arrays each of its own shape.
        blob: How the values of the latter are stored, each by itself; None for an array.
    """

    spec: FieldSpec
    values: NDArray[Any] | Sequence[str | bytes | NDArray[Any]]
    blob: BlobSpec | None = None

    def stored(self, position: int) -> bytes:
        """Return a value as it is stored."""
        value = self.values[position]
        if isinstance(value, np.ndarray):
            return value.tobytes()
        return value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False).encode()


@dataclass(frozen=True)
class Listing:
    """N samples with their files, in the order of the records.

    Attributes:
        path: The list, or the directory.
        base: The directory that relative paths are relative to.
        files: The files of the samples, with "/" between the parts: the image, and others by field.
        names: N names of records.
        columns: The fields beside the files, targets first.
        splits: int64 positions of each split.
        default_target: The field of the default target.
        specs: The meaning of files that are no images of samples.
        metadata: Values for the manifest.
        beside: Further files that belong to the raw data, and are not stored.
        lines: Where the list names each image, for messages.
        word: The word for these lines: "line" or "row".
        choice: How the data was read, for the user to check.
        digest: Changes with the list.
        stated: Width and height of images, as the data states them.
        where: Where files were looked for, for messages.
    """

    path: Path
    base: Path
    files: Mapping[str, Sequence[str]]
    names: Sequence[str]
    columns: Mapping[str, Column]
    splits: Mapping[str, NDArray[np.int64]]
    default_target: str
    specs: Mapping[str, FieldSpec] = field(default_factory=dict)
    metadata: Mapping[str, JSON] = field(default_factory=dict)
    beside: Sequence[str] = ()
    lines: Sequence[int] = ()
    word: str = "line"
    choice: str = ""
    digest: str = ""
    stated: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    where: str = ""


class ListingRecipe(Recipe):
    """The recipe of samples that are listed. `find` keeps its result for the table; pickled copies do not.

    Args:
        skips_missing: Leave out samples whose images are missing.
        allow_paths: Files may lie outside of the listing's directory.

    Attributes:
        missing: The images that `find` left out, with the reasons.
    """

    _is_untrusted = False  # whether files that are no images at all are refused

    def __init__(self, *, skips_missing: bool = False, allow_paths: bool = True) -> None:
        self._skips_missing, self._allow_paths = skips_missing, allow_paths
        self._listing: Listing | None = None
        self.missing: dict[str, str] = {}

    def __getstate__(self) -> dict[str, Any]:
        # Worker processes get their part with their unit.
        return {**self.__dict__, "_listing": None, "missing": {}}

    @abstractmethod
    def read(self, root: Path) -> Listing:
        """Read what names the samples, also those whose files are missing.

        Raises:
            ArgumentError, NotPreparedError, PrepareError, SourceError: It cannot be used.
        """

    def order(self, names: list[str]) -> list[str]:
        """Return the files of the samples in the order of reading."""
        return names

    def find(self, root: Path) -> Source | None:
        """Read what names the samples; raises as `read`."""
        found = self._listing = self.read(root)
        self.missing = self._missing_files(found) if self._skips_missing else {}
        blobs = {name: column.blob for name, column in found.columns.items() if column.blob is not None}
        self.fields = {**dict.fromkeys(found.files, BlobSpec("image")), **blobs}
        samples = zip(*found.files.values(), strict=True)  # the image comes first
        names = dict.fromkeys(name for files in samples if files[0] not in self.missing for name in files)
        return ListSource(found, [*self.order(list(names)), *found.beside], self._allow_paths)

    def _missing_files(self, found: Listing) -> dict[str, str]:
        """Return the images to leave out with the reasons; none if all are missing, which the source reports."""
        files = Files(found.base, allow_paths=self._allow_paths)
        looked = {name: files.look(name) for name in dict.fromkeys(found.files["image"])}
        missing = {name: why for name, why in looked.items() if isinstance(why, str)}
        return missing if len(missing) < len(looked) else {}

    def remarks(self) -> Iterator[str]:
        """Say how `find` read the samples, and which of them it left out; nothing before `find`."""
        if self._listing is not None:
            left_out = name_first([f"{name} ({why})" for name, why in self.missing.items()], NUM_SHOWN)
            yield self._listing.choice + (f"; left out: {left_out}" if self.missing else "")

    @override
    def extract(self, member: Member) -> Iterator[Blob]:
        name, _, key = member.name.partition(_MARK)
        if name:
            yield Blob(name, key, member.read(), is_untrusted=self._is_untrusted)

    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        """See `Recipe`: the listing's order. Missing images are in it, and are left out as skipped ones."""
        found = self._listing
        assert found is not None
        positions = [str(position) for position in range(len(found.names))]
        raw = {name: c.values for name, c in found.columns.items() if c.blob is not None and c.blob.encoding == "raw"}
        return Table(
            names=found.names,
            keys={**dict.fromkeys(self.fields, positions), **found.files},
            arrays={name: c.values for name, c in found.columns.items() if isinstance(c.values, np.ndarray)},
            splits=found.splits,
            fields={**found.specs, **{name: column.spec for name, column in found.columns.items()}},
            default_target=found.default_target,
            metadata=found.metadata,
            shapes={name: np.array([np.shape(each) for each in values], np.uint32) for name, values in raw.items()},
            skipped=self.missing,
        )


@dataclass(frozen=True)
class ListSource(SizedSource):
    """The files of a listing. Their status is read once, so that all answers of one source agree.

    Attributes:
        listing: The samples.
        names: The files in the order of reading, each once: absolute, or relative to the listing's base, with "/".
        allow_paths: Files may lie outside of the listing's base.
    """

    listing: Listing
    names: Sequence[str]
    allow_paths: bool

    @property
    @override
    def description(self) -> str:
        return str(self.listing.path)

    @override
    def records_bytes(self, expansion: float, cost: Callable[[int], int]) -> int:
        notes = sum(cost(len(data)) for notes in self._notes.values() for _, data in notes)
        return max(int(self.size_bytes * expansion), sum(map(cost, self.files().sizes)) + notes)

    @override
    def fingerprint(self) -> str:
        """Return a digest of the list and of all files' names, sizes and modification times."""
        return self.files().fingerprint(self.listing.digest.encode())

    @override
    def files(self) -> FileTable:
        """Return the files.

        Raises:
            NotPreparedError: Files are missing or cannot be read; the message names them.
        """
        return self._files

    @override
    def member_sizes(self) -> Sequence[int]:
        """Return the size in bytes of each file with its notes; raises as `files`."""
        return self._sizes

    @override
    def unit(self, start: int, stop: int) -> Unit:
        files = tree_unit(self.listing.base, self.files(), start, stop)
        names = self.names[start:stop]
        fields = [self._others.get(name, "image") for name in names]
        notes = [self._notes.get(name, ()) for name in names]
        members = functools.partial(_members, files.members, fields, notes)
        return replace(files, members=members, size_bytes=sum(self._sizes[start:stop]))

    @functools.cached_property
    def _others(self) -> Mapping[str, str]:
        """The fields of files that are no images; "" for those that are not stored."""
        fields = {name: field for field, names in self.listing.files.items() if field != "image" for name in names}
        return {**dict.fromkeys(self.listing.beside, ""), **fields}

    @functools.cached_property
    def _notes(self) -> Mapping[str, Sequence[Note]]:
        """The values to store with each image, by the image's name."""
        blobs = {name: column for name, column in self.listing.columns.items() if column.blob is not None}
        notes: dict[str, list[Note]] = {}
        for position, image in enumerate(self.listing.files["image"] if blobs else ()):
            found = [(f"{name}{_MARK}{position}", column.stored(position)) for name, column in blobs.items()]
            notes.setdefault(image, []).extend(found)
        return notes

    @functools.cached_property
    def _sizes(self) -> list[int]:
        return [
            size + sum(len(data) for _, data in self._notes.get(name, ()))
            for name, size in zip(self.names, self.files().sizes, strict=True)
        ]

    @functools.cached_property
    def _files(self) -> FileTable:
        """Read the status of every file."""
        listing, problems = self.listing, []
        table, files = FileTable(str(listing.base)), Files(listing.base, allow_paths=self.allow_paths)
        for name in self.names:
            found = files.look(name)
            if isinstance(found, str):
                problems.append((name, found))
            else:
                table.add(name, found)
        if not problems:
            return table
        lines = dict(zip(reversed(listing.files["image"]), reversed(listing.lines), strict=False))
        problems.sort(key=lambda problem: lines.get(problem[0], 0))
        shown = [
            f"{shorten(name, MAX_SHOWN)} ({f'{listing.word} {lines[name]}: ' if name in lines else ''}{why})"
            for name, why in problems
        ]
        raise NotPreparedError(
            f"{self.description}: {len(problems)} of the {len(self.names)} files that it names cannot be read: "
            f"{name_first(shown, NUM_SHOWN)}. {listing.where} on_error='skip' (--on-error skip) leaves them out.",
            path=self.description,
            num_missing=len(problems),
        )


class Files:
    """The files that a list in a directory names. The list may be a stranger's.

    Args:
        base: The directory.
        allow_paths: Files may lie outside of it, also by links.
    """

    def __init__(self, base: Path, *, allow_paths: bool) -> None:
        self._base, self._allow_paths = os.fspath(base), allow_paths
        self._root = os.path.realpath(base)
        self._folders: dict[str, str] = {}  # without links, by their names

    def look(self, name: str) -> os.stat_result | str:
        """Return a file's status, or the reason why it is not read."""
        path = os.path.join(self._base, name)
        if not self._allow_paths and not self._is_inside(path):
            return _OUTSIDE
        try:
            status = os.stat(path)
        except (OSError, ValueError) as err:  # the second for a NUL
            return getattr(err, "strerror", None) or str(err)
        if not stat.S_ISREG(status.st_mode):
            return "a directory" if stat.S_ISDIR(status.st_mode) else "no regular file"
        return status if os.access(path, os.R_OK) else "Permission denied"

    def _is_inside(self, path: str) -> bool:
        folder, name = os.path.split(path)
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(folder)
        place = os.path.join(self._folders[folder], name)
        place = os.path.realpath(place) if os.path.islink(place) else place
        return place.startswith(os.path.join(self._root, ""))


def _members(
    files: Callable[[], Iterator[Member]], fields: Sequence[str], notes: Sequence[Sequence[Note]]
) -> Iterator[Member]:
    """Yield files under their fields, each before its notes; `Member.read` raises `SourceError` like a tree's files."""
    for member, name, beside in zip(files(), fields, notes, strict=True):
        yield replace(member, name=f"{name}{_MARK}{member.name}")
        for note, data in beside:
            yield Member(note, len(data), functools.partial(bytes, data))
