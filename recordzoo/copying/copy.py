"""Copy a record set to another place: on this machine, or with `push` and `pull` to and from a URL."""

import os
from pathlib import Path

from typing_extensions import override

from recordzoo.base.program import command
from recordzoo.base.progress import Progress
from recordzoo.copying.arrival import Arrival, Origin
from recordzoo.copying.fetching import Folder
from recordzoo.copying.files import local_extras, local_marks, named_files
from recordzoo.copying.places import local_target
from recordzoo.copying.pull import PullJob
from recordzoo.copying.push import push
from recordzoo.errors import ArgumentError, CorruptRecordError, RecordError
from recordzoo.net.crew import WORKERS
from recordzoo.net.url import Url, is_url
from recordzoo.records.files import Directory
from recordzoo.records.manifest import MANIFEST_NAME, manifest_digest
from recordzoo.records.reader import RecordReader


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


def refuse_two_urls(path: object, destination: object) -> None:
    """Refuse to copy from a server to a server."""
    if is_url(path) and is_url(destination):
        there = Url.parse(path)
        raise ArgumentError(
            f"{there} and {Url.parse(destination)} are both URLs. Pull the record set first, then push it: "
            f"{command('pull', there)}"
        )


class CopyJob(Arrival):
    """One copy within this machine; `plan` changes nothing. The arguments are those of `copy`."""

    verb = "copy"

    @override
    def find(self) -> Origin:
        self.reader = reader = RecordReader(self.text)
        folder = reader.folder
        manifest, supply = reader.manifest, Folder(folder, Directory(folder))
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
            f"Run: {command('verify', self.reader.folder, '--repair')}",
            path=str(path),
        )
