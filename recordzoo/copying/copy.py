"""Copy a record set to another place: on this machine, or with `push` and `pull` to and from a URL."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import override

from recordzoo.base import durable
from recordzoo.base.program import command
from recordzoo.base.progress import Progress
from recordzoo.copying.arrival import Arrival, Origin
from recordzoo.copying.files import PIECE_BYTES, local_extras, local_marks, named_files
from recordzoo.copying.places import find_set, local_target, parsed
from recordzoo.copying.push import push
from recordzoo.errors import ArgumentError, CorruptRecordError, RecordError, RemoteError
from recordzoo.net.crew import WORKERS
from recordzoo.net.failures import NOT_FOUND, RANGE_NOT_SATISFIABLE
from recordzoo.net.store import Store
from recordzoo.net.url import Url, is_url
from recordzoo.records.files import Directory, pread
from recordzoo.records.manifest import MANIFEST_NAME, manifest_digest
from recordzoo.records.marks import marks_name, read_marks
from recordzoo.records.reader import RecordReader

_MARKS_EXTRA_BYTES = 4  # their checksum
_NO_MARKS = (403, NOT_FOUND, RANGE_NOT_SATISFIABLE)  # S3 answers 403 for an absent file without the right to list


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
        replace: Replace another record set at the destination.
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
    refuse_two_urls(path, destination)
    if is_url(destination):
        url = os.fspath(destination)
        return push(path, url, replace=replace, verify=verify, workers=workers, progress=progress)
    kind = PullJob if is_url(path) else CopyJob
    job = kind(os.fspath(path), Path(destination), replace, workers, progress, verify)
    return job.run().path


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
        replace: Replace another record set at `path` atomically.
        workers: Number of files fetched in parallel.
        progress: Receives the progress.

    Returns:
        The record set's directory.

    Raises:
        NotPreparedError: There is no record set at `url`.
        OtherSourceError: Another record set, or something else, is at `path`.
        CorruptRecordError: A file at the URL differs from the manifest, also when fetched again.
        RemoteError: The server cannot be reached, or refuses access.
        DiskSpaceError: There is too little room on the disk.
        ArgumentError: `url` is no URL, or there are several record sets in that folder.

    Examples:
        >>> import recordzoo
        >>> recordzoo.pull("s3://bucket/datasets/photos.records", "data")  # doctest: +SKIP
        PosixPath('/home/me/data/photos.records')
    """
    if is_url(path):
        raise ArgumentError(f"{Url.parse(path)} is a URL; a record set is pulled into a directory of this machine.")
    return PullJob(url, Path(path), replace=replace, workers=workers, progress=progress).run().path


def refuse_two_urls(path: object, destination: object) -> None:
    """Refuse to copy from a server to a server."""
    if is_url(path) and is_url(destination):
        there = Url.parse(path)
        raise ArgumentError(
            f"{there} and {Url.parse(destination)} are both URLs. Pull the record set first, then push it: "
            f"{command('pull', there)}"
        )


@dataclass(frozen=True)
class _Folder:
    """The files of a directory, as a `Supply`."""

    path: Path
    directory: Directory

    def pieces(self, name: str, size_bytes: int, start: int = 0) -> Iterator[bytes]:
        """See `Supply`."""
        fd = self.directory.open(name, size_bytes)
        try:
            while start < size_bytes:
                data = pread(fd, min(PIECE_BYTES, size_bytes - start), start)
                if not data:  # truncated while it is read
                    return
                yield data
                start += len(data)
        except OSError as err:
            where = str(self.path / name)
            raise RecordError(f"{where} cannot be read: {err.strerror}.", path=where) from err
        finally:
            os.close(fd)


class CopyJob(Arrival):
    """One copy within this machine; `plan` changes nothing. The arguments are those of `copy`."""

    verb = "copy"

    @override
    def find(self) -> Origin:
        self.reader = reader = RecordReader(self.text)
        folder = reader.folder
        manifest, supply = reader.manifest, _Folder(folder, Directory(folder))
        files = [*named_files(manifest), *local_marks(folder, manifest), *local_extras(reader)]
        data = reader.extra(MANIFEST_NAME)
        if data is None or manifest_digest(data) != reader.digest:
            raise RecordError(f"{folder} was replaced while it was opened. Run the same command again.")
        return Origin(str(folder), folder.name, data, manifest, reader.digest, supply, files)

    @override
    def find_target(self) -> Path:
        """Return the copy's directory."""
        target = local_target(self.place, self.origin.name)
        if target.exists() and target.samefile(self.reader.folder):
            raise ArgumentError(f"{target} is the record set itself. Name another directory.")
        return target

    @override
    def damaged(self, name: str) -> CorruptRecordError:
        path = self.reader.folder / name
        return CorruptRecordError(
            f"{path} is damaged: its hash is not the one in the manifest. Nothing was published. "
            f"Run: {command('verify', self.reader.folder, '--full')}",
            path=str(path),
        )


class PullJob(Arrival):
    """One pull; `plan` changes nothing. The arguments are those of `pull`."""

    verb = "pull"

    @override
    def find(self) -> Origin:
        self.url, data = find_set(self.text)
        manifest, digest = parsed(data, self.url)
        return Origin(str(self.url), self.url.name, data, manifest, digest, Store(self.url), named_files(manifest))

    @override
    def find_target(self) -> Path:
        return local_target(self.place, self.url.name)

    @override
    def damaged(self, name: str) -> CorruptRecordError:
        url = str(self.url / name)
        return CorruptRecordError(
            f"{url} is not the file that the manifest names: its hash is another one, also when it is fetched again. "
            "Push the record set again, with --verify.",
            url=url,
        )

    @override
    def finish(self, folder: Path) -> set[str]:
        self._fetch_marks(folder)
        return {marks_name(name) for name in self.origin.manifest.blobs}

    def _fetch_marks(self, folder: Path) -> None:
        """Fetch existing marks that fit the set; readers determine missing ones again."""
        for name in self.origin.manifest.blobs:
            path, index = folder / marks_name(name), self.origin.manifest.arrays[f"{name}.index"]
            try:
                size_bytes = self.origin.manifest.num_records + _MARKS_EXTRA_BYTES
                with open(path, "wb") as file:
                    for data in self.origin.supply.pieces(path.name, size_bytes):
                        file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
            except RemoteError as err:
                if err.details.get("status") not in _NO_MARKS:
                    raise
            if read_marks(Directory(folder), name, index) is None:
                durable.remove(path)
