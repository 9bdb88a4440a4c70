"""A directory as a source: its files in torchvision's order, under their names in the archive."""

import functools
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
from recordzoo.raw.member import FileTable, Member, PassedOver, SizedSource, Unit, refuse_oversized

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
        return self._files

    @override
    def member_sizes(self) -> Sequence[int]:
        return self._files.sizes

    @override
    def fingerprint(self) -> str:
        return self._files.fingerprint()

    @override
    def unit(self, start: int, stop: int) -> Unit:
        return tree_unit(self.base, self._files, start, stop)

    @functools.cached_property
    def _files(self) -> FileTable:
        base, table = str(self.base), FileTable(str(self.base))
        problems, passed_over = list[str](), PassedOver(base)
        for name in _names(base, self.wanted, problems) if self.names is None else self.names:
            try:
                status = os.stat(os.path.join(base, name))
            except (OSError, ValueError) as err:  # ValueError: a NUL in a given name
                problems.append(f"{name} ({getattr(err, 'strerror', err)})")
                continue
            if stat.S_ISREG(status.st_mode):
                table.add(name, status)
            else:
                passed_over.add(name, "special file")
        passed_over.report()
        if problems:
            what = counted(len(problems), "file or directory", "files or directories")
            raise SourceError(
                f"{base}: {what} cannot be read: {name_first(problems, _NUM_NAMED)}. "
                "Restore or remove them, or their permissions, then run the same again.",
                path=base,
                problems=tuple(problems),
            )
        return table


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


def _names(base: str, wanted: Callable[[str], bool] | None, problems: list[str]) -> Iterator[str]:
    """Yield the name of every (wanted) file under the base, in torchvision's order."""
    # Sorted as whole strings, like sorted(os.walk()): "a", "a-b", "a/c", not depth first.
    for folder, files in sorted(_folders(base, problems)):
        prefix = f"{folder}/" if folder else ""
        for name in sorted(files):
            if wanted is None or wanted(prefix + name):
                yield prefix + name


def _folders(base: str, problems: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each directory, relative to the base (itself ""), with its files; links to directories are followed."""
    waiting: list[tuple[str, dict[tuple[int, int], str]]] = [("", {})]
    while waiting:
        folder, above = waiting.pop()
        path = os.path.join(base, folder)
        try:
            status = os.stat(path)
            with os.scandir(path) as entries:
                are_folders = {entry.name: is_folder(entry) for entry in entries}
        except OSError as err:
            if not folder:
                text = f"{base}: the directory cannot be listed ({err.strerror})."
                raise FolderError(text, path=base) from err
            problems.append(f"{folder} ({err.strerror})")
            continue
        identity = (status.st_dev, status.st_ino)
        if identity in above and status.st_ino:  # some network drives of Windows have no inode numbers
            text = f"{path}: leads back to {os.path.join(base, above[identity])}: the tree has no end."
            raise FolderError(f"{text} Remove the link.", path=base)
        yield folder, [name for name, is_dir in are_folders.items() if not is_dir]
        here = {**above, identity: folder}
        prefix = f"{folder}/" if folder else ""  # "/" on every system: same order everywhere
        waiting.extend((prefix + name, here) for name, is_dir in are_folders.items() if is_dir)
