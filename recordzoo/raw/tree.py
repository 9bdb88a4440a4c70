"""A directory as a source: its files in torchvision's order, under their names in the archive."""

import functools
import logging
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from typing_extensions import override

from recordzoo.base.files import is_folder, open_at_once
from recordzoo.base.text import counted, name_first
from recordzoo.errors import FolderError, SourceError
from recordzoo.raw.member import MAX_MEMBER_BYTES, FileTable, Member, SizedSource, Unit, refuse_oversized

logger = logging.getLogger("recordzoo")

_NUM_NAMED = 20  # problems of a listing that a message names


@dataclass(frozen=True)
class TreeSource(SizedSource):
    """The files under a directory, listed once, so that all answers of one source agree.

    Without `names`, all regular files in the order of ``sorted(os.walk(base, followlinks=True))``, each directory's
    files sorted: within a class, the order of `torchvision.datasets.folder.make_dataset`.

    Attributes:
        base: The directory.
        names: The files in order, relative to `base` with "/" between the parts; None for all.
        wanted: Filter by name, if all files are listed. The status of other files is not read, so that an editor's
            dangling lock file does no harm.
    """

    base: Path
    names: Sequence[str] | None = None
    wanted: Callable[[str], bool] | None = None

    def __post_init__(self) -> None:
        if self.names is not None:
            object.__setattr__(self, "names", tuple(self.names))

    @property
    @override
    def description(self) -> str:
        return str(self.base)

    @override
    def files(self) -> FileTable:
        """Return the files, as they were listed first.

        Raises:
            FolderError: The directory does not exist, or contains itself by a link.
            SourceError: Files cannot be listed; the message names the first ones.
        """
        return self._listing.table

    @override
    def member_sizes(self) -> Sequence[int]:
        return self.files().sizes

    @override
    def fingerprint(self) -> str:
        return self._listing.fingerprint

    @override
    def unit(self, start: int, stop: int) -> Unit:
        return tree_unit(self.base, self.files(), start, stop)

    @functools.cached_property
    def _listing(self) -> "_Listing":
        listing = _Listing(self.base)
        if self.names is None:
            listing.add_all(self.wanted)
        else:
            for name in self.names:
                listing.add_name(name)
        listing.finish()
        return listing


def tree_unit(base: Path, files: FileTable, start: int, stop: int) -> Unit:
    """Return the unit of the files from `start` to before `stop`."""
    sizes = files.sizes[start:stop]
    read = functools.partial(_files_of, str(base), tuple(files.names[start:stop]), sizes)
    return Unit(read, sum(sizes), files.stamp(start, stop))


def _files_of(base: str, names: Sequence[str], sizes: Sequence[int]) -> Iterator[Member]:
    """Yield the files; `Member.read` raises `SourceError` if one changed or cannot be read."""
    for name, size_bytes in zip(names, sizes, strict=True):
        read = functools.partial(_read_file, base, name, size_bytes)
        yield Member(name, size_bytes, read, stream=functools.partial(_open_file, base, name))


def _open_file(base: str, name: str) -> BinaryIO:
    """Open a file for sequential reading. `Unit.stamp` detects changes during the read."""
    path = os.path.join(base, name)
    try:
        return open(path, "rb", opener=open_at_once)
    except OSError as err:
        raise _unreadable(path, err) from err


def _read_file(base: str, name: str, size_bytes: int) -> bytes:
    path = os.path.join(base, name)
    if size_bytes > MAX_MEMBER_BYTES:
        refuse_oversized(lambda what: SourceError(f"{base}: {what}.", path=path), name, size_bytes)
    try:
        # If it became a FIFO since the listing, opening it must not wait for a writer.
        with open(path, "rb", opener=open_at_once) as file:
            # One extra byte detects growth; a FIFO without data returns None.
            data = file.read(size_bytes + 1) or b""
    except OSError as err:
        raise _unreadable(path, err) from err
    if len(data) != size_bytes:
        found = f"{len(data):,} bytes" if len(data) < size_bytes else "more"
        raise SourceError(
            f"{path}: the tree changed while it was read: the file had {size_bytes:,} bytes when it was listed and "
            f"has {found} now. Wait until nothing writes to it, then run the same again.",
            path=path,
        )
    return data


def _unreadable(path: str, err: OSError) -> SourceError:
    return SourceError(
        f"{path}: the file was listed and cannot be read now ({err.strerror}). Restore it or its permissions, "
        "then run the same again.",
        path=path,
    )


class _Listing:
    """Collects the table of a tree's files, its fingerprint, and all problems."""

    def __init__(self, base: Path) -> None:
        self.table = FileTable(str(base))
        self.fingerprint = ""
        self._base = str(base)
        self._problems: list[str] = []
        self._special: list[str] = []

    def add_all(self, wanted: Callable[[str], bool] | None) -> None:
        """Add every (wanted) file under the base, in torchvision's order."""
        # Sorted as whole strings, like sorted(os.walk()): "a", "a-b", "a/c", not depth first.
        for folder, files in sorted(self._folders()):
            prefix = f"{folder}/" if folder else ""
            for name in sorted(files):
                if wanted is None or wanted(prefix + name):
                    self.add_name(prefix + name)

    def add_name(self, name: str) -> None:
        """Add one file."""
        try:
            status = os.stat(os.path.join(self._base, name))
        except (OSError, ValueError) as err:  # ValueError: a NUL in a given name
            self._problems.append(f"{name} ({getattr(err, 'strerror', err)})")
            return
        if not stat.S_ISREG(status.st_mode):
            self._special.append(name)
            return
        self.table.add(name, status)

    def finish(self) -> None:
        """Warn of skipped files; raise if files cannot be read."""
        if self._special:
            logger.warning(
                "%s: passed over %d that are no regular files (FIFOs, sockets, devices): %s",
                self._base,
                len(self._special),
                name_first(self._special, _NUM_NAMED),
            )
        if self._problems:
            named = name_first(self._problems, _NUM_NAMED)
            what = counted(len(self._problems), "file or directory", "files or directories")
            raise SourceError(
                f"{self._base}: {what} cannot be read: {named}. "
                "Restore or remove them, or their permissions, then run the same again.",
                path=self._base,
                problems=tuple(self._problems),
            )
        self.fingerprint = self.table.fingerprint()

    def _folders(self) -> Iterator[tuple[str, list[str]]]:
        """Yield each directory, relative to the base (itself ""), with its files; links to directories are followed."""
        waiting: list[tuple[str, dict[tuple[int, int], str]]] = [("", {})]
        while waiting:
            folder, above = waiting.pop()
            path = os.path.join(self._base, folder)
            try:
                status = os.stat(path)
                with os.scandir(path) as entries:
                    are_folders = {entry.name: is_folder(entry) for entry in entries}
            except OSError as err:
                if not folder:
                    text = f"{self._base}: the directory cannot be listed ({err.strerror})."
                    raise FolderError(text, path=self._base) from err
                self._problems.append(f"{folder} ({err.strerror})")
                continue
            identity = (status.st_dev, status.st_ino)
            if identity in above and status.st_ino:  # some network drives of Windows have no inode numbers
                text = f"{path}: leads back to {os.path.join(self._base, above[identity])}: the tree has no end."
                raise FolderError(f"{text} Remove the link.", path=self._base)
            yield folder, [name for name, is_dir in are_folders.items() if not is_dir]
            here = {**above, identity: folder}
            prefix = f"{folder}/" if folder else ""  # "/" on every system: same order everywhere
            waiting.extend((prefix + name, here) for name, is_dir in are_folders.items() if is_dir)
