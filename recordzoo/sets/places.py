"""The two ends of a copy: `Source`, the record set that is copied, and the directory or URL that it gets."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from recordzoo.base.settings import command
from recordzoo.errors import ArgumentError, CorruptRecordError, NotPreparedError, RecordError, RemoteError
from recordzoo.net.failures import NOT_FOUND, RANGE_NOT_SATISFIABLE
from recordzoo.net.hub import HubDataset, is_bucket
from recordzoo.net.store import Store
from recordzoo.net.url import WITHOUT_SERVER, Url, is_url
from recordzoo.records.arrays import MARKS_EXTRA_BYTES, fits, marks_name
from recordzoo.records.manifest import (
    ENDING,
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    Manifest,
    manifest_digest,
    parse_manifest,
)
from recordzoo.records.reader import RecordReader
from recordzoo.records.writer import BESIDE, COPIED_FILE, MAX_EXTRA_BYTES

_ABSENT = (NOT_FOUND, RANGE_NOT_SATISFIABLE, 403)  # S3 answers 403 for an absent file without the right to list
_PIECE_BYTES = 4 << 20

_Place = TypeVar("_Place", Path, Url)


@dataclass(frozen=True)
class _Folder:
    """The files of a record set on this machine, read as those of a `Store`."""

    reader: RecordReader

    def pieces(self, name: str, size_bytes: int, start: int = 0) -> Iterator[bytes]:
        """See `Store`."""
        with open(self.reader.open_file(name, size_bytes), "rb") as file:
            try:
                file.seek(start)
                while data := file.read(_PIECE_BYTES):
                    yield data
            except OSError as err:
                where = str(self.reader.folder / name)
                raise RecordError(f"{where} cannot be read: {err.strerror}.", path=where) from err

    def read_if_there(self, name: str, max_bytes: int, absent: Sequence[int]) -> bytes | None:
        """See `Store`."""
        return self.reader.extra(name, max_bytes)


@dataclass(frozen=True)
class Source:
    """A record set to copy.

    Attributes:
        place: Its directory or URL.
        data: The bytes of its manifest.
        manifest: The manifest.
        digest: The set's digest.
        supply: Gives the files that the manifest names.
    """

    place: Path | Url
    data: bytes
    manifest: Manifest
    digest: str
    supply: Store | _Folder

    @classmethod
    def find(cls, text: str | os.PathLike[str]) -> "Source":
        """Find the record set at a path or URL, or the only one below a URL."""
        if is_url(text):
            url, found = find_set(os.fspath(text))
            return cls(url, found, parse_manifest(found, str(url / MANIFEST_NAME)), manifest_digest(found), Store(url))
        reader = RecordReader(text)
        data = reader.extra(MANIFEST_NAME)
        if data is None or manifest_digest(data) != reader.digest:
            raise RecordError(f"{reader.folder} was replaced while it was opened. Run the same command again.")
        return cls(reader.folder, data, reader.manifest, reader.digest, _Folder(reader))

    def marks(self) -> Iterator[tuple[str, bytes]]:
        """Yield name and content of each undamaged file of marks; readers determine missing ones again."""
        for field in self.manifest.blobs:
            num_bytes = self.manifest.num_records + MARKS_EXTRA_BYTES
            data = self.supply.read_if_there(marks_name(field), num_bytes, _ABSENT)
            if data is not None and fits(data, self.manifest.arrays[f"{field}.index"]):
                yield marks_name(field), data

    def beside(self) -> Iterator[tuple[str, bytes]]:
        """Yield what `marks` does and, of a set on this machine, the files that tell where the raw data is."""
        yield from self.marks()
        for name in set(BESIDE) - {COPIED_FILE} if isinstance(self.place, Path) else ():
            data = self.supply.read_if_there(name, MAX_EXTRA_BYTES, _ABSENT)
            if data is not None:
                yield name, data

    def damaged(self, name: str) -> CorruptRecordError:
        """Return the error for a file that differs from the manifest."""
        where = str(self.place / name)
        text = f"{where} is missing or damaged: its hash is not the one in the manifest. Nothing was published."
        if isinstance(self.place, Url):
            return CorruptRecordError(f"{text} Push the record set again, with --verify.", url=where)
        return CorruptRecordError(f"{text} Run: {command('verify', self.place, '--full')}", path=where)


def find_set(text: str) -> tuple[Url, bytes]:
    """Find the record set at an address, or the only one below it; return its URL and manifest.

    Raises:
        ArgumentError: The address is not a URL, or there are several record sets.
        NotPreparedError: There is no record set.
        RemoteError: The server cannot be reached.
    """
    url, names = _address(text), list[str]()
    data = manifest_in(Store(url))
    if data is None and not url.name.endswith(ENDING):
        with contextlib.suppress(RemoteError):  # the server cannot list
            names = sorted(name for name in Store(url).folders() if name.endswith(ENDING))
    if len(names) > 1:
        shown = ", ".join(str(url / name) for name in names)
        raise ArgumentError(f"There are several record sets at {url}; name one: {shown}.")
    place = url / names[0] if names else url
    data = manifest_in(Store(place)) if names else data
    if data is None:
        raise NotPreparedError(
            f"There is no record set at {url}: it has no {MANIFEST_NAME}. Check the address; if the set was being "
            f"pushed, run the same command again: {command('push', 'SET', url)}",
            url=str(url),
        )
    return place, data


def destination(text: str, name: str) -> Url:
    """Return the URL to which a set named `name` is pushed: the given one, or one below it."""
    url = _address(text)
    if url.scheme in ("http", "https"):
        raise ArgumentError(f"{url} cannot be written to: a record set is pushed to s3://, gs://, az://, hf://.")
    if url.has_query:
        raise ArgumentError(f"{url} is followed by a query (?...): a record set is pushed to an address without one.")
    if url.scheme == "hf" and not (HubDataset.find(url.public) or is_bucket(url)):
        raise ArgumentError(
            f"{url} is no dataset and no bucket of the Hub: hf://datasets/USER/NAME or hf://buckets/USER/NAME."
        )
    return named(url, name)


def named(place: _Place, name: str) -> _Place:
    """Return the place of a set: the given one if it ends in ``.records``, else one in it, with the set's name."""
    return place if place.name.endswith(ENDING) else place / f"{name.removesuffix(ENDING)}{ENDING}"


def manifest_in(store: Store) -> bytes | None:
    """Return the manifest in a folder, unparsed; None if there is none."""
    return store.read_if_there(MANIFEST_NAME, MAX_MANIFEST_BYTES + 1)


def _address(text: str) -> Url:
    url = Url.parse(text)
    if not url.name and url.scheme not in WITHOUT_SERVER:
        raise ArgumentError(f"{url} names no bucket or host. An address looks like s3://bucket/datasets.")
    return url
