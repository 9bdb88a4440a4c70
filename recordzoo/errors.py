"""Every error that recordzoo raises on purpose.

    RecordZooError
    ├── ArgumentError (ValueError)                 an argument's value is not one of the valid ones
    │   └── SampleIndexError (IndexError)          a sampler or a Subset names a sample that does not exist
    ├── NotPreparedError (RuntimeError, FileNotFoundError)
    │   │                                          no records and no raw data, or too much to convert unasked
    │   └── TermsError                             the data's terms of access were not accepted
    ├── FolderError (FileNotFoundError)            a class-per-folder tree without classes or images
    ├── SourceError (RuntimeError)                 raw data cannot be had or is not what it should be
    │   ├── DownloadError (OSError)                a file could not be downloaded
    │   ├── HashMismatchError                      a file is not the one that was expected
    │   ├── ArchiveError                           an archive is cut, broken or hostile
    │   └── SampleError (TypeError)                a sample of your own dataset cannot be stored
    ├── PrepareError (RuntimeError)                conversion failed; what was finished is kept
    │   ├── DiskSpaceError (OSError)               too little room
    ├── ForkError (RuntimeError)                   a forked process uses an iterator of the process before it
    ├── EmptyBatchError (RuntimeError)             no sample of a batch could be read, with on_error="skip"
    └── RecordError (OSError)                      a record set on disk cannot be used
        ├── ManifestError (ValueError)             the manifest breaks the format
        │   └── FormatVersionError                 written by a newer recordzoo
        ├── CorruptRecordError                     stored bytes are not the bytes that were written
        ├── OtherSourceError                       the set was made from other raw data than what is asked for
        ├── RemoteError                            a file at a URL cannot be read or written
        └── ImageError (UnidentifiedImageError)    a stored image cannot be decoded

Each also is the builtin that a torchvision user would catch, can be made from one string and pickles: torch rebuilds
an error raised in a worker that way. What the message says in words is kept as attributes too, where code may need it.
A traceback ends with the address of the documentation's section on the error, once the project has a site.
"""

import contextlib
from functools import cache
from typing import Any

from PIL import UnidentifiedImageError


@cache
def url(label: str) -> str | None:
    """Return the address with this label ("Documentation", "Source", ...); None if the project has none yet."""
    # Not at the top: it imports `email`, a tenth of what a process of a preparation imports.
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        lines = metadata("recordzoo").get_all("Project-URL") or ()
    except PackageNotFoundError:  # a copy of the sources that was not installed
        return None
    addresses = {name.lower(): address for name, _, address in (line.partition(", ") for line in lines)}
    return addresses.get(label.lower())


def page(path: str) -> str | None:
    """Return the address of a page of the documentation, such as ``errors/#forkerror``; None if there is no site."""
    site = url("Documentation")
    return site and f"{site.rstrip('/')}/{path}"


class RecordZooError(Exception):
    """Base of all errors of this package.

    Args:
        text: The whole message.
        **details: What the message is about, kept as attributes (``err.path``, ``err.position``, ...).
    """

    # Any: details are whatever the raising place knows, read back as attributes.
    def __init__(self, text: str = "", **details: Any) -> None:
        super().__init__(text)
        self.details = details
        with contextlib.suppress(Exception):  # no more open files, say: the address must not hide the error
            if about := page(f"errors/#{type(self).__name__.lower()}"):
                self.add_note(f"See {about}")

    def __getattr__(self, name: str) -> Any:
        details = self.__dict__.get("details", {})
        if name in details:
            return details[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), str(self), self.__dict__.get("details", {})), self.__dict__  # with its notes


def _rebuild(kind: type[RecordZooError], text: str, details: dict[str, Any]) -> RecordZooError:
    return kind(text, **details)


class ArgumentError(RecordZooError, ValueError):
    """An argument has a value that is not one of the valid ones."""


class SampleIndexError(ArgumentError, IndexError):
    """A sampler or a `Subset` names a sample that does not exist."""


class NotPreparedError(RecordZooError, RuntimeError, FileNotFoundError):
    """There are no records, and nothing to make them from without being asked."""


class TermsError(NotPreparedError):
    """The official host may only be used by someone who accepted its terms of access."""


class FolderError(RecordZooError, FileNotFoundError):
    """A class-per-folder tree has no classes, or a class has no images."""


class SourceError(RecordZooError, RuntimeError):
    """Raw data cannot be had, or is not what it should be."""


class DownloadError(SourceError, OSError):
    """A file could not be downloaded."""


class HashMismatchError(SourceError):
    """A file's size or hash is not the expected one."""


class ArchiveError(SourceError):
    """An archive is cut, broken or hostile."""


class SampleError(SourceError, TypeError):
    """A sample of a person's own dataset is nothing that a record can hold."""


class PrepareError(RecordZooError, RuntimeError):
    """Conversion failed; what was finished is kept, and the same command goes on from there."""


class DiskSpaceError(PrepareError, OSError):
    """There is too little room on the volume."""


class ForkError(RecordZooError, RuntimeError):
    """A forked process uses an iterator of its parent, whose threads it does not have."""


class EmptyBatchError(RecordZooError, RuntimeError):
    """All samples of a batch were left out, as `on_error="skip"` leaves out those that cannot be read."""


class RecordError(RecordZooError, OSError):
    """A record set on disk cannot be used."""


class ManifestError(RecordError, ValueError):
    """The manifest, or a file it names, breaks the format."""


class FormatVersionError(ManifestError):
    """The record set was written in a format that this version does not read."""


class CorruptRecordError(RecordError):
    """Stored bytes are not the bytes that were written."""


class OtherSourceError(RecordError):
    """The record set was made from other raw data than what is asked for."""


class RemoteError(RecordError):
    """A file at a URL cannot be read or written."""


class ImageError(RecordError, UnidentifiedImageError):
    """A stored image cannot be decoded; it is stored exactly as the raw data has it."""
