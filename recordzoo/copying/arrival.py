"""Copy a record set to this machine: several threads fill a build, which one rename publishes."""

import json
import os
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from recordzoo.base import durable
from recordzoo.base.bars import default_progress
from recordzoo.base.crash_points import crash_point
from recordzoo.base.hashing import hash_of
from recordzoo.base.progress import Progress
from recordzoo.copying.files import PART, Fetch, has_size, named_files, remove_all_but
from recordzoo.copying.places import digest_at
from recordzoo.errors import CorruptRecordError, OtherSourceError
from recordzoo.net.crew import WORKERS, Crew
from recordzoo.net.part import HashedFile, Supply
from recordzoo.publish.build import Build
from recordzoo.publish.output import SET, Output, build_path
from recordzoo.publish.publishing import publish
from recordzoo.records.made_from import COPIED_FILE
from recordzoo.records.manifest import MANIFEST_NAME, Manifest
from recordzoo.records.reader import is_record_set


@dataclass(frozen=True, slots=True)
class Arrived:
    """The result of a copy to this machine, or of its plan.

    Attributes:
        path: The record set's directory.
        source: The origin: a path, or a URL without a login.
        digest: The set's digest.
        num_files: Number of files, without the manifest.
        num_bytes: Size of these files.
        fetched_bytes: Bytes fetched.
        was_ready: Whether the set already existed.
    """

    path: Path
    source: str
    digest: str
    num_files: int
    num_bytes: int
    fetched_bytes: int
    was_ready: bool = False


@dataclass(frozen=True, slots=True)
class Origin:
    """A record set to fetch.

    Attributes:
        address: Its path or URL, for messages.
        name: The name of its directory.
        data: The bytes of its manifest.
        manifest: The manifest.
        digest: The set's digest.
        supply: Gives its files.
        files: All files, without the manifest.
    """

    address: str
    name: str
    data: bytes
    manifest: Manifest
    digest: str
    supply: Supply
    files: list[HashedFile]


@dataclass
class Arrival(ABC):
    """One copy to this machine; `plan` changes nothing.

    Attributes:
        text: The record set, as the user names it.
        place: The destination: a directory whose name ends in ``.records``, or its parent directory.
        replace: Replace another record set at the destination.
        workers: Number of files fetched in parallel.
        progress: Receives the progress.
        verify: Read each file back from the disk and compare its hash again.
        fetched_bytes: Bytes fetched.
    """

    verb: ClassVar[str]
    """The command's name."""

    text: str
    place: Path
    replace: bool = False
    workers: int = WORKERS
    progress: Progress | None = None
    verify: bool = False
    fetched_bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        self.origin = self.find()
        self.files = self.origin.files
        self.target = self.find_target()

    @abstractmethod
    def find(self) -> Origin:
        """Find the record set to fetch."""

    @abstractmethod
    def find_target(self) -> Path:
        """Return the set's future directory."""

    @abstractmethod
    def damaged(self, name: str) -> CorruptRecordError:
        """Return the error for a file whose hash at the origin differs from the manifest."""

    def finish(self, folder: Path) -> set[str]:
        """Add files without a known hash; return their names."""
        return set()

    @property
    def num_bytes(self) -> int:
        """The size of all files, without the manifest."""
        return sum(file.size_bytes for file in self.files)

    def plan(self) -> Arrived:
        """Return the expected result: `fetched_bytes` is the number of bytes still to fetch."""
        if self._is_ready():
            return self._result(was_ready=True)
        self.fetched_bytes = self.num_bytes - self._kept_bytes()
        return self._result()

    def run(self) -> Arrived:
        """Copy the record set."""
        progress = self.progress or default_progress()
        is_made = publish(
            Output(self.target, elsewhere="name another directory"),
            self._is_ready,
            progress,
            lambda build: self._write(build, progress),
            may_replace=self._may_replace,
        )
        return self._result(was_ready=not is_made)

    def _may_replace(self, path: Path) -> bool:
        return self.replace and is_record_set(path)

    def _is_ready(self) -> bool:
        """Whether the record set is complete at its destination."""
        if not os.path.lexists(self.target):
            return False
        there = digest_at(self.target)
        is_same = there == self.origin.digest
        if is_same and all(map(self._is_whole, named_files(self.origin.manifest))):
            return True
        if there is not None and self.replace:
            return False
        if there is None:
            what = "is there, and is no record set that can be read. Move it away, or name another directory"
        else:
            what = f"holds {'a damaged copy of this' if is_same else 'another'} record set. Pass --replace"
            what += " (replace=True) to replace it, or name another directory"
        raise OtherSourceError(f"{self.target} {what}.", path=str(self.target))

    def _is_whole(self, file: HashedFile) -> bool:
        """Whether a file exists, by its size; with `verify`, by its hash."""
        path = self.target / file.name
        return has_size(path, file.size_bytes) and (not self.verify or hash_of(path) == file.hash)

    def _kept_bytes(self) -> int:
        """Return the number of bytes already present, from an interrupted run."""
        names = {file.name for file in self.files}
        files = (path for path in (build_path(self.target) / SET).glob("*") if path.name.partition(PART)[0] in names)
        return sum(path.stat().st_size for path in files)

    def _write(self, build: Build, progress: Progress) -> None:
        """Write the record set into a build."""
        build.claim({self.verb: self.origin.digest}, self.num_bytes)
        crew = Crew(progress, self.workers)
        supply, folder = self.origin.supply, build.set
        fetch = Fetch(supply, folder, crew, build.check, self._count, self.damaged, self.verify)
        progress.begin(f"{self.verb}ing {self.origin.name}", self.num_bytes)
        crew.run(fetch.file, self.files)
        progress.end()
        remove_all_but(folder, {*(file.name for file in self.files), *self.finish(folder)})
        copied = {"from": self.origin.address, "digest": self.origin.digest}
        durable.write_file(folder / COPIED_FILE, json.dumps(copied).encode())
        durable.write_file(folder / MANIFEST_NAME, self.origin.data)
        durable.sync_directory(folder)
        crash_point("set.manifest_written")

    def _count(self, num_bytes: int) -> None:
        with self._lock:
            self.fetched_bytes += num_bytes

    def _result(self, *, was_ready: bool = False) -> Arrived:
        origin, fetched = self.origin, max(0, self.fetched_bytes)
        return Arrived(self.target, origin.address, origin.digest, len(self.files), self.num_bytes, fetched, was_ready)
