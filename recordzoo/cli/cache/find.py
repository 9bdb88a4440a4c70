"""Find what recordzoo wrote below some directories: by names, and by what is in it."""

import functools
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from recordzoo import catalogue
from recordzoo.catalogue import Entry, FileFacts
from recordzoo.cli.cache.item import Item, Kind, files_below, measure
from recordzoo.cli.cache.sets import set_item
from recordzoo.errors import ArgumentError
from recordzoo.owner import Owner
from recordzoo.preparing.build_lock import who_holds
from recordzoo.preparing.download_mark import is_marked, mark_path
from recordzoo.preparing.stale_builds import find_builds
from recordzoo.sources.download import unfinished

DEPTH = 2
"""So many levels of directories below a root are searched: torchvision keeps raw files as deep as ``MNIST/raw``."""

_BUILD = re.compile(r"(?P<set>.+)\.build\.[^.]+")
_LOCK = re.compile(r"\.(?P<set>.+)\.lock")
_PART = re.compile(r"(?P<raw>.+)\.part(\..+)?")
_BAD = re.compile(r"(?P<raw>.+)\.bad-[0-9a-f]{8}")
_IN_BUILD = re.compile(
    r"plan\.json|journal\.jsonl|heartbeat|set|old|replacing|u[0-9]{5,}.*|.*\.(tmp|new)"  # see docs/architecture.md
)


def find_items(roots: Iterable[Path]) -> list[Item]:
    """Find all that recordzoo wrote in these directories and two levels below them; links are not followed."""
    found: dict[Path, Item] = {}
    for root in roots:
        for folder in _folders(Path(os.path.realpath(root)), DEPTH):
            found.update((item.path, item) for item in items_in(folder))
    return sorted(found.values(), key=lambda item: (str(item.path.parent), item.kind != Kind.SET, item.path.name))


def item_at(path: Path) -> Item:
    """Describe what is at a path.

    Raises:
        ArgumentError: It is a link, or nothing that recordzoo wrote.
    """
    if path.is_symlink():
        raise ArgumentError(f"{path} is a link. Nothing is deleted through links; name {os.path.realpath(path)}.")
    place = Path(os.path.realpath(path))
    found = next((item for item in items_in(place.parent, {place.name}) if item.path == place), None)
    if found is None:
        raise ArgumentError(
            f"{path} is not deleted: it is no record set with a readable manifest, and no other file or folder that "
            "recordzoo is known to have written.",
            path=str(path),
        )
    return found


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
        if not name.endswith(".records") and not _BUILD.fullmatch(name):
            yield from _folders(root / name, depth - 1)


def items_in(folder: Path, only: set[str] | None = None) -> Iterator[Item]:
    """Yield what recordzoo wrote into a directory, not what is deeper.

    Args:
        folder: The directory.
        only: Only what has one of these names.
    """
    try:
        with os.scandir(folder) as scanned:
            entries = [(e.name, e.is_dir(follow_symlinks=False), e.is_file(follow_symlinks=False)) for e in scanned]
    except OSError:
        return
    for name, is_dir, is_file in entries:
        if only is not None and name not in only:
            continue
        path = folder / name
        item = None
        try:
            if is_dir:
                item = _build_item(path) or set_item(path)
            elif is_file:
                item = _lock_item(path) or _bad_item(path) or _part_item(path) or _raw_item(path)
        except OSError:  # it went away meanwhile, or may not be read
            continue
        if item is not None:
            yield item


def _build_item(path: Path) -> Item | None:
    match = _BUILD.fullmatch(path.name)
    if match is None:
        return None
    found = next((build for build in find_builds(path.with_name(match["set"])) if build.path == path), None)
    names = os.listdir(path)
    foreign = tuple(name for name in names if not _IN_BUILD.fullmatch(name))
    if found is None or (names and len(foreign) == len(names)):
        return None
    size, last = measure(files_below(path))
    used_by = "" if found.is_dead or found.owner is None else found.owner.description
    return Item(Kind.BUILD, path, match["set"].removesuffix(".records"), size, last, used_by, foreign=foreign)


def _lock_item(path: Path) -> Item | None:
    """Describe a lock file of a set: by its name, and by its owner's in it. A lock in use is no item."""
    match = _LOCK.fullmatch(path.name)
    if match is None or path.stat().st_size > 200:
        return None
    text = path.read_bytes().decode(errors="replace")
    is_ours = Owner.parse(text) is not None or (not text and match["set"].endswith(".records"))
    target = path.with_name(match["set"])
    if not is_ours or who_holds(path) or find_builds(target):
        return None
    size, last = measure([path], [path.name])
    return Item(Kind.LOCK, path, match["set"].removesuffix(".records"), size, last)


def _bad_item(path: Path) -> Item | None:
    match = _BAD.fullmatch(path.name)
    known = _known(path.with_name(match["raw"])) if match else None
    return None if known is None else Item(Kind.BAD, path, known[0].name, *measure([path]))


def _part_item(path: Path) -> Item | None:
    match = _PART.fullmatch(path.name)
    target = path.with_name(match["raw"]) if match else path
    known = _known(target) if match else None
    if known is None:
        return None
    used_by = "" if path in unfinished(target) else "another process"
    return Item(Kind.DOWNLOAD, path, known[0].name, *measure([path]), used_by)


def _raw_item(path: Path) -> Item | None:
    """Describe a raw file that recordzoo downloaded: our mark is beside it."""
    known = _known(path)
    if known is None:
        return None
    entry, file = known
    if not mark_path(path).is_file() or not is_marked(path):
        return None
    return Item(Kind.RAW, path, entry.name, *measure([path]), kept=_why_needed(path, entry, file))


def _why_needed(path: Path, entry: Entry, file: FileFacts) -> str:
    """Say why a raw file is still of use: a record set that is made of it is not there. "" if it is not."""
    root = path.parents[len(Path(entry.folder).parts)]
    for part in file.parts:
        if not entry.part(part).optional and not (root / f"{entry.set_name(part)}.records" / "manifest.json").is_file():
            return f"{entry.label(part)} is not prepared"
    return ""


def _known(path: Path) -> tuple[Entry, FileFacts] | None:
    """Find the dataset that has a raw file of this name in such a folder."""
    for entry, file in _raw_files().get(path.name, ()):
        parts = Path(entry.folder).parts
        if not parts or path.parent.parts[-len(parts) :] == parts:
            return entry, file
    return None


@functools.cache
def _raw_files() -> dict[str, list[tuple[Entry, FileFacts]]]:
    found: dict[str, list[tuple[Entry, FileFacts]]] = {}
    for name in catalogue.names():
        entry = catalogue.entry(name)
        for file in entry.files:
            found.setdefault(file.name, []).append((entry, file))
    return found
