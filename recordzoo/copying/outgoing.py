"""`Outgoing`: a record set of this machine while it is sent elsewhere; `Pushed`, the result."""

from dataclasses import dataclass
from pathlib import Path

from recordzoo.base.program import command
from recordzoo.copying.files import Checksums, checksums, local_marks, named_files
from recordzoo.copying.places import parsed
from recordzoo.errors import CorruptRecordError, OtherSourceError, RecordError
from recordzoo.net.crew import Crew
from recordzoo.net.part import HashedFile
from recordzoo.net.url import Url
from recordzoo.records.files import Directory
from recordzoo.records.manifest import MANIFEST_NAME
from recordzoo.records.reader import RecordReader

OUR_ENDINGS = (".lmdb", ".npy", ".marks")
"""What the files of a record set end with, apart from the manifest."""


@dataclass(frozen=True, slots=True)
class Pushed:
    """The result of `push`, or of its plan.

    Attributes:
        url: The record set's URL.
        digest: The set's digest.
        num_files: Number of files, without the manifest.
        num_bytes: Size of these files.
        sent_files: Number of files sent.
        sent_bytes: Bytes sent.
        is_compared: Whether files already there were compared by checksum or content, not only by size.
    """

    url: str
    digest: str
    num_files: int
    num_bytes: int
    sent_files: int
    sent_bytes: int
    is_compared: bool = True


class Outgoing:
    """A record set of this machine, compared with its manifest while it is sent.

    Args:
        path: Its directory.

    Attributes:
        reader: Reads it.
        path: Its directory, absolute.
        digest: Its digest.
        data: The manifest's bytes.
        files: Its other files.
    """

    def __init__(self, path: Path) -> None:
        self.reader = RecordReader(path)
        self.path, self.digest = self.reader.folder, self.reader.digest
        with open(Directory(self.path).open(MANIFEST_NAME), "rb") as file:
            self.data = file.read()
        manifest = self.reader.manifest
        self.files = [*named_files(manifest), *local_marks(self.path, manifest)]
        self._checksums: dict[str, Checksums] = {}

    def checksums_of(self, file: HashedFile, crew: Crew) -> Checksums:
        """Return a file's checksums, reading it once.

        Raises:
            CorruptRecordError: It is missing, or differs from the manifest.
        """
        found = self._checksums.get(file.name)
        if found is None:
            path = self.path / file.name
            try:
                found = checksums(path, crew)
            except FileNotFoundError:
                found = Checksums("", "")
            if found.hash != file.hash:
                raise CorruptRecordError(
                    f"{path} is missing or damaged: its hash is not the one in the manifest. Nothing was published. "
                    f"Run: {command('verify', self.path, '--full')}",
                    path=str(path),
                )
            self._checksums[file.name] = found
        return found

    def check_place(self, there: bytes | None, url: Url, *, replace: bool) -> bool:
        """Return whether another manifest is at the destination, which may be replaced.

        Args:
            there: The bytes of the manifest there; None if there is none.
            url: The destination.
            replace: Whether another record set may be replaced.

        Raises:
            OtherSourceError: Another record set is there and may not be replaced.
        """
        if there in (None, self.data) or replace:
            return there not in (None, self.data)
        assert there is not None
        try:
            what = f"another record set (digest {parsed(there, url)[1][:16]}...)"
        except RecordError:
            what = f"a {MANIFEST_NAME} that is not of a record set, or damaged"
        raise OtherSourceError(
            f"There is {what} at {url}. Pass --replace (replace=True) to replace it, or another address.",
            path=str(self.path),
            url=str(url),
        )

    def result(self, url: Url, sent: dict[str, int], *, is_compared: bool = True) -> Pushed:
        """Return the result of a push, or of its plan.

        Args:
            url: The destination.
            sent: The size of each file sent, by name.
            is_compared: Whether files already there were compared by more than their size.
        """
        total = sum(file.size_bytes for file in self.files)
        return Pushed(str(url), self.digest, len(self.files), total, len(sent), sum(sent.values()), is_compared)
