"""Files that recordzoo wrote, found by names and contents; `recordzoo cache` deletes nothing else."""

import contextlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from recordzoo import catalogue
from recordzoo.base import settings
from recordzoo.base.lock import who_holds
from recordzoo.catalogue import Entry, FileFacts
from recordzoo.errors import ArgumentError, RecordError
from recordzoo.net.cache import Cache
from recordzoo.net.partial import lock_path
from recordzoo.preparing.downloads import is_marked, mark_path
from recordzoo.preparing.kinds import kind_of
from recordzoo.publish.output import LOCK, build_path
from recordzoo.recipes.from_sets.variants import original_path
from recordzoo.records.kinds import SetKind
from recordzoo.records.made_from import BESIDE, strangers
from recordzoo.records.manifest import ENDING, MANIFEST_NAME, MAX_MANIFEST_BYTES, ORIGINAL, manifest_digest
from recordzoo.records.reader import RecordReader, is_record_set
from recordzoo.records.remote_directory import cached_addresses

DEPTH = 2
"""Levels of directories below a root that are searched: torchvision keeps raw files in ``MNIST/raw``."""

_BUILD = re.compile(r"(?P<set>.+)\.build(-[0-9a-f]{8})?")
_PART = re.compile(r"(?P<raw>.+)\.part([.-].+)?")
_BAD = re.compile(r"(?P<raw>.+)\.bad-[0-9a-f]{8}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_IN_BUILD = re.compile(
    r"plan\.json|lock|set|old|replacing|u[0-9]{5,}.*|.*\.(tmp|new)"  # docs/decisions/preparing.md
)
_SHARD = re.compile(r"shard-[0-9]{5,7}\.lmdb")
_IN_SET = re.compile("|".join([_SHARD.pattern, r"[a-z0-9_.-]+\.npy", r".+\.marks", *map(re.escape, BESIDE)]))
"""Files of a record set other than its manifest."""

_IN_CACHE = re.compile(rf"{_IN_SET.pattern}|{re.escape(MANIFEST_NAME)}|.+\.absent|\..+\.(lock|part)")


class Kind(StrEnum):
    """A kind of file that recordzoo wrote."""

    SET = "record set"
    RAW = "raw file"
    CACHED = "cached set"
    BUILD = "interrupted build"
    DOWNLOAD = "interrupted download"
    BAD = "rejected download"
    REMAINS = "remains of a record set"


LEFTOVERS = (Kind.BUILD, Kind.DOWNLOAD, Kind.BAD, Kind.REMAINS)
"""Leftovers of interrupted work."""


class Shared(NamedTuple):
    """A file that has several names."""

    device: int
    inode: int
    size_bytes: int
    num_names: int


@dataclass(frozen=True, slots=True)
class Item:
    """A file or directory that recordzoo wrote.

    Attributes:
        kind: What it is.
        path: Where it is, absolute; no link.
        name: A record set's name, the dataset of a raw file, or the address of a cached set.
        size_bytes: Its size, with that of all files in it.
        last_used: About when it was read or written last, in seconds since 1970.
        used_by: The process that works on it, which prevents deletion. "" for none.
        kept: Why `prune` leaves it, and `rm` warns: it could not be made again. "" if it could.
        foreign: Files in it that recordzoo did not write, which prevent deletion.
        shared: The shards that have other names, too.
    """

    kind: Kind
    path: Path
    name: str
    size_bytes: int
    last_used: float
    used_by: str = ""
    kept: str = ""
    foreign: Sequence[str] = ()
    shared: Sequence[Shared] = ()

    @property
    def obstacle(self) -> str:
        """The reason why no command deletes it; "" if it may be deleted."""
        if self.used_by:
            return f"{self.used_by} works on it"
        if self.foreign:
            names = ", ".join(self.foreign[:3]) + (", ..." if len(self.foreign) > 3 else "")
            return f"it holds files that recordzoo did not write ({names}); move them away"
        return ""


def size_of(items: Sequence[Item]) -> int:
    """Return the size of some items together; a file that several of them share counts once."""
    times = num_names(items)
    return sum(item.size_bytes for item in items) - sum((n - 1) * file.size_bytes for file, n in times.items())


def freed_by(items: Sequence[Item]) -> int:
    """Return the bytes that deleting these items frees: a shared file is freed with its last name."""
    kept = sum(file.size_bytes for file, number in num_names(items).items() if number < file.num_names)
    return size_of(items) - kept


def num_names(items: Sequence[Item]) -> Counter[Shared]:
    """Count the names that each shared file has in some items."""
    return Counter(file for item in items for file in item.shared)


def find_items(roots: Iterable[Path]) -> list[Item]:
    """Find everything that recordzoo wrote in these directories and two levels below; links are not followed."""
    found: dict[Path, Item] = {}
    for root in roots:
        for folder in _folders(Path(os.path.realpath(root)), DEPTH):
            found.update((item.path, item) for item in _items_in(folder))
    return sorted(found.values(), key=lambda item: (str(item.path.parent), item.kind != Kind.SET, item.path.name))


def item_at(path: Path) -> Item:
    """Describe what is at a path.

    Raises:
        ArgumentError: It is a link, or was not written by recordzoo.
    """
    if path.is_symlink():
        raise ArgumentError(f"{path} is a link. Nothing is deleted through links; name {os.path.realpath(path)}.")
    place = Path(os.path.realpath(path))
    found = _describe(place, is_dir=place.is_dir(), is_file=place.is_file())
    if found is None:
        raise ArgumentError(
            f"{path} is not deleted: it is no record set with a readable manifest, and no other file or folder that "
            "recordzoo is known to have written.",
            path=str(path),
        )
    return found


def cache_folders() -> list[Path]:
    """Return the folder of the node's cache; none where there is no home directory."""
    with contextlib.suppress(RuntimeError):
        return [settings.cache_folder()]
    return []


def _folders(root: Path, depth: int) -> Iterator[Path]:
    """Yield a directory and those below it, without record sets, builds and hidden ones."""
    yield root
    if not depth:
        return
    try:
        with os.scandir(root) as entries:
            names = sorted(e.name for e in entries if e.is_dir(follow_symlinks=False) and not e.name.startswith("."))
    except OSError:
        return
    for name in names:
        if not (name.endswith(ENDING) or _BUILD.fullmatch(name) or _DIGEST.fullmatch(name)):
            yield from _folders(root / name, depth - 1)


def _items_in(folder: Path) -> Iterator[Item]:
    """Yield the items directly in a directory."""
    try:
        with os.scandir(folder) as scanned:
            entries = list(scanned)
    except OSError:
        return
    for entry in entries:
        is_dir, is_file = entry.is_dir(follow_symlinks=False), entry.is_file(follow_symlinks=False)
        if (item := _describe(Path(entry.path), is_dir=is_dir, is_file=is_file)) is not None:
            yield item


def _describe(path: Path, *, is_dir: bool, is_file: bool) -> Item | None:
    with contextlib.suppress(OSError):  # it is gone, or may not be read
        if is_dir:
            return _build_item(path) or _cached_item(path) or _set_item(path)
        if is_file:
            return _bad_item(path) or _part_item(path) or _raw_item(path)
    return None


def _measure(paths: Iterable[Path], not_read: Iterable[str] = ()) -> tuple[int, float]:
    """Return the size of some files together, and about when one of them was read or written last.

    `not_read` are names of files whose time of reading does not count: this command reads them.
    """
    size, last, unread = 0, 0.0, set(not_read)
    for path in paths:
        with contextlib.suppress(OSError):  # it is gone
            facts = path.lstat()
            size += facts.st_size
            last = max(last, facts.st_mtime, 0.0 if path.name in unread else facts.st_atime)
    return size, last


def _set_item(path: Path) -> Item | None:
    """Describe the record set in a directory; None if it is none, or its manifest cannot be read."""
    if not is_record_set(path):
        return _remains_item(path)
    names = sorted(os.listdir(path))
    size, last = _measure((path / name for name in names), (MANIFEST_NAME, *BESIDE))  # before they are read
    try:
        reader = RecordReader(path)
        reason = _why_kept(reader)
    except RecordError:
        return None
    manifest = reader.manifest
    foreign = tuple(strangers(path))
    facts = [(path / shard.name).lstat() for shard in manifest.shards if (path / shard.name).is_file()]
    shared = tuple(Shared(f.st_dev, f.st_ino, f.st_size, f.st_nlink) for f in facts if f.st_nlink > 1)
    return Item(
        Kind.SET,
        path,
        path.name.removesuffix(ENDING),
        size,
        last,
        who_holds(build_path(path) / LOCK),
        reason,
        foreign,
        shared,
    )


def _remains_item(path: Path) -> Item | None:
    """Describe a record set whose deletion was interrupted: files without a manifest."""
    names = os.listdir(path)
    if not path.name.endswith(ENDING) or not all(map(_IN_SET.fullmatch, names)):
        return None
    if not any(map(_SHARD.fullmatch, names)):  # shards are deleted last
        return None
    size, last = _measure(path / name for name in names)
    return Item(Kind.REMAINS, path, path.name.removesuffix(ENDING), size, last, who_holds(build_path(path) / LOCK))


def _cached_item(path: Path) -> Item | None:
    """Describe a set of the node's cache: its manifest's digest is the directory's name. Its times are those of use."""
    if not _DIGEST.fullmatch(path.name):
        return None
    names = os.listdir(path)
    foreign = tuple(name for name in names if not _IN_CACHE.fullmatch(name))
    if MANIFEST_NAME in names:
        with (path / MANIFEST_NAME).open("rb") as file:
            is_ours = manifest_digest(file.read(MAX_MANIFEST_BYTES + 1)) == path.name
    else:
        is_ours = not foreign and path.parent in map(Path, map(os.path.realpath, cache_folders()))
    if not is_ours:
        return None
    cache = Cache(path.parent)
    addresses = sorted(url for url, digest in cached_addresses(cache).items() if digest == path.name)
    size, last = _measure((path / name for name in names), names)
    used_by = "another process" if cache.is_coming(path.name) else ""
    return Item(Kind.CACHED, path, addresses[0] if addresses else path.name[:16], size, last, used_by, foreign=foreign)


def _build_item(path: Path) -> Item | None:
    match = _BUILD.fullmatch(path.name)
    if match is None:
        return None
    names = os.listdir(path)
    foreign = tuple(name for name in names if not _IN_BUILD.fullmatch(name))
    if names and len(foreign) == len(names):
        return None
    size, last = _measure(Path(place, name) for place, _, files in os.walk(path) for name in files)
    used_by = who_holds(path / LOCK)
    return Item(Kind.BUILD, path, match["set"].removesuffix(ENDING), size, last, used_by, foreign=foreign)


def _bad_item(path: Path) -> Item | None:
    match = _BAD.fullmatch(path.name)
    known = _known(path.with_name(match["raw"])) if match else None
    return None if known is None else Item(Kind.BAD, path, known[0].name, *_measure([path]))


def _part_item(path: Path) -> Item | None:
    match = _PART.fullmatch(path.name)
    target = path.with_name(match["raw"]) if match else path
    known = _known(target) if match else None
    if known is None:
        return None
    used_by = who_holds(lock_path(target))
    return Item(Kind.DOWNLOAD, path, known[0].name, *_measure([path]), used_by)


def _raw_item(path: Path) -> Item | None:
    """Describe a raw file that recordzoo downloaded, known by the mark beside it."""
    known = _known(path)
    if known is None or not mark_path(path).is_file() or not is_marked(path):
        return None
    entry, file = known
    return Item(Kind.RAW, path, entry.name, *_measure([path]), kept=_why_needed(path, entry, file))


def _why_needed(path: Path, entry: Entry, file: FileFacts) -> str:
    """Name a record set of a raw file that does not exist; "" if all exist."""
    root = path.parents[len(Path(entry.folder).parts)]
    for part in file.parts:
        if not entry.part(part).optional and not (root / f"{entry.set_name(part)}{ENDING}" / MANIFEST_NAME).is_file():
            return f"{entry.label(part)} is not prepared"
    return ""


def _known(path: Path) -> tuple[Entry, FileFacts] | None:
    """Find the dataset with a raw file of this name in a folder of this name."""
    for entry, file in catalogue.raw_files().get(path.name, ()):
        parts = Path(entry.folder).parts
        if not parts or path.parent.parts[-len(parts) :] == parts:
            return entry, file
    return None


def _why_kept(reader: RecordReader) -> str:
    """Say why a record set could not be made again; "" if it could: its raw data is there, or can be downloaded."""
    manifest, path = reader.manifest, reader.folder
    if manifest.variant != ORIGINAL:
        original = original_path(path, manifest.variant)
        if original != path and is_record_set(original):
            return ""
    if catalogue.entry_of(manifest) is not None:
        return why_not_downloaded(manifest.dataset, manifest.part, path.parent)
    is_remade = manifest.kind in (SetKind.FOLDER, SetKind.FLAT, SetKind.ANNOTATED, SetKind.LIST)
    base = next(iter(kind_of(manifest).recorded(reader)), None) if is_remade else None
    if base is None:
        return "recordzoo does not know what it was made from"
    return "" if os.path.exists(base) else f"what it was made from is gone: {base}"


def why_not_downloaded(dataset: str, part: str, root: Path) -> str:
    """Say which raw file of a dataset's part is missing in a root and has no free download; "" if none."""
    entry = catalogue.entry(dataset)
    for file in entry.files:
        if part not in file.parts or file.optional or (root / entry.folder / file.name).is_file():
            continue
        if file.needs_terms:
            return f"{file.name} is not there, and can be downloaded only after accepting terms"
        if not file.urls:
            return f"{file.name} is not there, and must be downloaded by hand"
    return ""
