"""Copy a record set: to a directory with `Copy`, several files at a time and one rename; to a URL with `push`."""

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recordzoo.base.files import DONT_NEED, advise, remove, sync_directory, write_file
from recordzoo.base.process import crash_point
from recordzoo.base.progress import Progress, SilentProgress, default_progress
from recordzoo.errors import ArgumentError, OtherSourceError, PrepareError, RecordError
from recordzoo.net.part import WORKERS, Crew, HashedFile, Part
from recordzoo.net.url import Url, is_url
from recordzoo.preparing.publish import Build, Output, generation, publishing
from recordzoo.records.manifest import MANIFEST_NAME
from recordzoo.records.reader import RecordReader
from recordzoo.records.verify import verify as check
from recordzoo.records.writer import COPIED_FILE, hashed_files
from recordzoo.sets.places import Source, named
from recordzoo.sets.push import Push, push_job


def copy(
    path: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    replace: bool = False,
    verify: bool = False,
    workers: int = WORKERS,
    progress: Progress | None = None,
) -> Path | str:
    """Copy a record set to another place, several files at a time; it appears in one step, complete.

    Each file is compared with the manifest's hash while it is copied. After an interruption, the same call continues
    with the files already copied. From a URL this is `pull`, to a URL `push`.

    Args:
        path: The record set: its directory, or its URL.
        destination: A path or URL that ends in ``.records``, or a folder, in which the set keeps its name.
        replace: Replace another record set at the destination. Your own files in it move into the new one.
        verify: Read each file back and compare its hash again.
        workers: Number of files copied in parallel.
        progress: Receives the progress.

    Returns:
        The copy's directory or URL.

    Raises:
        ManifestError: There is no record set at `path`.
        OtherSourceError: Another record set, or something else, is at `destination`.
        CorruptRecordError: A file of the set is damaged; nothing is published.
        DiskSpaceError: There is too little room on the disk.
        PrepareError: With `verify`: the bytes read back differ from the written ones.
        RemoteError: A server cannot be reached, or refuses access.
        ArgumentError: Both are URLs, or both are the same directory.

    Examples:
        >>> import recordzoo
        >>> recordzoo.copy("data/photos.records", "/mnt/fast")  # doctest: +SKIP
        PosixPath('/mnt/fast/photos.records')
    """
    job = copy_job(path, destination, replace=replace, verify=verify, workers=workers, progress=progress)
    job.run()
    return job.target if isinstance(job, Copy) else str(job.url)


def pull(
    url: str,
    path: str | os.PathLike[str] = ".",
    *,
    replace: bool = False,
    workers: int = WORKERS,
    progress: Progress | None = None,
) -> Path:
    """Copy a record set from a URL to this machine, several files at a time; it appears in one step, complete.

    Each file is compared with the manifest's hash. After an interruption, the same call continues with the bytes
    already fetched.

    Args:
        url: The record set's URL, or the URL of its parent folder.
        path: A directory whose name ends in ``.records``, or a folder, in which the set keeps its name.
        replace, workers, progress: As in `copy`.

    Returns:
        The record set's directory.

    Raises:
        NotPreparedError: There is no record set at `url`.
        CorruptRecordError: A file at the URL differs from the manifest, also when fetched again.
        ArgumentError: `url` is no URL, or there are several record sets in that folder.
        OtherSourceError, RemoteError, DiskSpaceError: As in `copy`.

    Examples:
        >>> import recordzoo
        >>> recordzoo.pull("s3://bucket/datasets/photos.records", "data")  # doctest: +SKIP
        PosixPath('/home/me/data/photos.records')
    """
    job = pull_job(url, path, replace=replace, workers=workers, progress=progress)
    job.run()
    return job.target


# Any, here and below: the options of `Copy`.
def copy_job(path: str | os.PathLike[str], destination: str | os.PathLike[str], **options: Any) -> "Copy | Push":
    """Return a copy that has not begun; the arguments are those of `copy`."""
    if is_url(destination):
        return push_job(path, os.fspath(destination), **options)
    return Copy(Source.find(path), Path(destination), **options)


def pull_job(url: str, path: str | os.PathLike[str], **options: Any) -> "Copy":
    """Return a pull that has not begun; the arguments are those of `pull`."""
    if is_url(path):
        raise ArgumentError(f"{Url.parse(path)} is a URL; a record set is pulled into a directory of this machine.")
    return Copy(Source.find(Url.parse(url)), Path(path), **options)


@dataclass
class Copy:
    """A copy to this machine, into `folder` or one in it; the arguments are those of `copy`.

    Attributes:
        target: The new record set.
        files: Its files, without the manifest.
        copied: The bytes of each file that were copied, or that `plan` expects to be copied, by name.
        was_ready: Whether the new record set was complete already.
    """

    source: Source
    folder: Path
    replace: bool = False
    verify: bool = False
    workers: int = WORKERS
    progress: Progress | None = None

    def __post_init__(self) -> None:
        here = self.source.place
        self.target = named(self.folder.expanduser().absolute(), here.name)
        if isinstance(here, Path) and generation(self.target) == generation(here) is not None:
            raise ArgumentError(f"{self.target} is the record set itself. Name another directory.")
        self.files, self.copied, self.was_ready = hashed_files(self.source.manifest), dict[str, int](), False
        self.shown = self.progress or default_progress()

    def plan(self) -> None:
        """Set the expected result, and change nothing; what an interrupted copy left counts as not yet copied."""
        self.was_ready = self._is_ready()
        self.copied = {file.name: file.size_bytes for file in self.files if not self.was_ready}

    def run(self) -> None:
        """Copy the record set."""
        output = Output(self.target, elsewhere="name another directory")
        with publishing(output, self._is_ready, self.shown, replaces=self.replace) as build:
            if build is not None:
                self._write(build)
        self.was_ready = build is None or not build.is_first

    def _is_ready(self) -> bool:
        """Whether the record set is complete at its destination; raise if something there may not be replaced."""
        if not os.path.lexists(self.target):
            return False
        there = None
        with contextlib.suppress(RecordError):
            there = RecordReader(self.target).digest
        is_same = there == self.source.digest
        if is_same and check(self.target, full=self.verify, progress=SilentProgress()).ok:
            return True
        if there is not None and self.replace:
            return False
        if there is None:
            what = "is there, and is no record set that can be read. Move it away, or name another directory"
        else:
            what = f"holds {'a damaged copy of this' if is_same else 'another'} record set. Pass --replace"
            what += " (replace=True) to replace it, or name another directory"
        raise OtherSourceError(f"{self.target} {what}.", path=str(self.target))

    def _write(self, build: Build) -> None:
        """Write the record set into a build, the manifest last."""
        num_bytes = sum(file.size_bytes for file in self.files)
        build.claim({"copy": self.source.digest}, num_bytes)
        self.shown.begin(f"copying {self.source.place.name}", num_bytes)
        crew = Crew(self.shown, self.workers)
        crew.run(lambda file: self._fetch(file, build, crew), self.files)
        self.shown.end()
        for name, data in self.source.beside():
            write_file(build.set / name, data)
        said = {"from": str(self.source.place), "digest": self.source.digest}
        write_file(build.set / COPIED_FILE, json.dumps(said).encode())
        write_file(build.set / MANIFEST_NAME, self.source.data)
        sync_directory(build.set)
        crash_point("set.manifest_written")

    def _fetch(self, file: HashedFile, build: Build, crew: Crew) -> None:
        """Copy a file into the build, and check it; go on where an interrupted copy ended."""

        def pieces(start: int) -> Iterator[bytes]:
            for data in self.source.supply.pieces(file.name, file.size_bytes, start):
                build.check()
                yield data
                self.copied[file.name] = self.copied.get(file.name, 0) + len(data)
                crash_point("pull.received")

        with Part(build.set / file.name) as part:
            is_right = part.complete(file, pieces, crew.advance)
            if is_right:
                part.sync()
                if self.verify:
                    _read_back(part, file.hash)
        if not is_right:
            remove(part.path)
            raise self.source.damaged(file.name)
        crash_point("pull.fetched")


def _read_back(part: Part, expected: str) -> None:
    """Drop a new file's page cache and hash the file again from the disk."""
    if advise is not None:
        advise(part.fileno(), 0, 0, DONT_NEED)
    if f"sha256:{part.hash_again('sha256')}" != expected:
        text = f"{part.path} reads back otherwise than it was written. Check the disk, or choose another."
        raise PrepareError(text, path=str(part.path))
