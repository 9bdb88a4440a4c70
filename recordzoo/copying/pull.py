"""`pull`: copy a record set from object storage to this machine."""

import os
from pathlib import Path

from typing_extensions import override

from recordzoo.base import durable
from recordzoo.base.progress import Progress
from recordzoo.copying.arrival import Arrival, Origin
from recordzoo.copying.files import named_files
from recordzoo.copying.places import find_set, local_target, parsed
from recordzoo.errors import ArgumentError, CorruptRecordError, RemoteError
from recordzoo.net.crew import WORKERS
from recordzoo.net.failures import NOT_FOUND, RANGE_NOT_SATISFIABLE
from recordzoo.net.store import Store
from recordzoo.net.url import Url, is_url
from recordzoo.records.files import Directory
from recordzoo.records.marks import marks_name, read_marks

_MARKS_EXTRA_BYTES = 4  # their checksum
_NO_MARKS = (403, NOT_FOUND, RANGE_NOT_SATISFIABLE)  # S3 answers 403 for an absent file without the right to list


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
            durable.remove(path)  # it may be hard-linked to a file of the published set
            if self.whole is not None and path.name in self.whole:
                durable.link_or_copy(self.target / path.name, path)
                continue
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
