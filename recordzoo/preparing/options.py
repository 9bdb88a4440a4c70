"""The options that dataset classes, functions and the command line share: their names for users, and their values."""

import os
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Literal, Self, TypedDict

from recordzoo.base.progress import Progress
from recordzoo.errors import ArgumentError

_ON_ERROR = ("keep", "skip", "raise")
_REFRESH = (False, True, "if-changed")


class NewOptions(TypedDict, total=False):
    """Options to store a new record set; all optional and keyword-only.

    Attributes:
        workers: Number of processes. Default: the cores available to this process, at most 8; one for less than 16 MiB
            of files.
        executor: A ``concurrent.futures.Executor`` whose workers convert instead: a pool of threads or processes,
            Dask's ``client.get_executor()``, ... They may be on other hosts that see the same directories; see
            ``docs/guides/cluster.md``. It is left running.
        shard_bytes: Target shard size in bytes. Default: data size / 8, clipped to 64 MiB..1 GiB. For variants:
            estimated size / 32, clipped to 16 MiB..1 GiB.
        num_shards: Exact number of shards, instead of `shard_bytes`. Not for archives, which are read front to back.
        on_error: Treatment of an encoded image whose header no decoder recognises: "keep" it unchanged (default;
            reading it raises, as in torchvision), "skip" it, or "raise". A file of more than 1 GiB can only be skipped.
        check_images: Decode each image while converting, and treat one that cannot be decoded as `on_error` says.
            Default: only headers are read, which is faster; other damage raises when the image is read.
        progress: Receives the progress. Default: bars on a terminal or in a notebook; elsewhere a line on stderr at
            the start and end of each stage and every half minute, or through `logging` (logger "recordzoo") if that is
            configured. ``RECORDZOO_QUIET=1`` silences it.
    """

    workers: int | None
    executor: Executor | None
    shard_bytes: int | None
    num_shards: int | None
    on_error: Literal["keep", "skip", "raise"]
    check_images: bool
    progress: Progress | None


class OwnOptions(NewOptions, total=False):
    """Options for record sets of a user's own data, in addition to `NewOptions`; all optional and keyword-only.

    Attributes:
        refresh: True: rebuild the record set and replace the existing one atomically. "if-changed": only if its content
            differs from the request, or if raw files of a tree or a list have changed; all are compared. Default: use
            the existing set, or raise.
    """

    refresh: bool | Literal["if-changed"]


class PrepareOptions(OwnOptions, total=False):
    """Options to find or prepare a record set, in addition to `OwnOptions`; all optional and keyword-only.

    Attributes:
        prepare: True: convert existing raw data of any size. False: never convert. Default: convert up to
            20 GB (``RECORDZOO_AUTO_PREPARE_GB``).
        records_dir: The record set's own directory, instead of ``<root>/<name>.records``.
        mirror: Base URL tried before the official hosts, as ``<mirror>/<dataset>/<file>``; default
            ``RECORDZOO_MIRROR``.
        check_hash: Compare raw archives with the known hash (default). False is for an archive that you re-packed.
        incomplete: Store raw data of a dataset of class folders although classes are missing. Labels are the places of
            the classes that are there. Default: raise.
        accept_terms: You accept the terms of access of the dataset's files (see ``recordzoo info``).
        discard_raw: Delete the archives that this preparation downloaded once the records are published.
        variant: Store images smaller or in another encoding, in a separate record set: "256" for a short side of 256
            pixels, "max512", "256-raw", ...; see ``docs/variants.md``. Default: unchanged images.
        cache_bytes: Size limit in bytes of this machine's cache, for a record set at a URL. Default:
            ``RECORDZOO_CACHE_BYTES``.
    """

    prepare: bool | None
    records_dir: str | os.PathLike[str] | None
    mirror: str | None
    check_hash: bool
    incomplete: bool
    accept_terms: bool
    discard_raw: bool
    variant: str | None
    cache_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The validated values of all `PrepareOptions`, with defaults.

    Raises:
        ArgumentError: An option has an invalid value, or two options exclude each other.
    """

    workers: int | None = None
    executor: Executor | None = None
    shard_bytes: int | None = None
    num_shards: int | None = None
    on_error: Literal["keep", "skip", "raise"] = "keep"
    check_images: bool = False
    refresh: bool | Literal["if-changed"] = False
    progress: Progress | None = None
    prepare: bool | None = None
    records_dir: str | os.PathLike[str] | None = None
    mirror: str | None = None
    check_hash: bool = True
    incomplete: bool = False
    accept_terms: bool = False
    discard_raw: bool = False
    variant: str | None = None
    cache_bytes: int | None = None

    def __post_init__(self) -> None:
        executor: object = self.executor
        if executor is not None and not isinstance(executor, Executor):
            hint = " Pass client.get_executor()." if hasattr(executor, "get_executor") else ""
            raise ArgumentError(
                f"Argument executor is {type(executor).__name__!r}; it must be a concurrent.futures.Executor.{hint}"
            )
        if executor is not None and self.workers is not None:
            raise ArgumentError(
                f"workers={self.workers} and executor are both given; an executor has its own workers. Pass one."
            )
        if self.on_error not in _ON_ERROR:
            raise ArgumentError(
                f"Unknown value {self.on_error!r} for argument on_error (--on-error). Valid values are "
                f"{', '.join(_ON_ERROR)}."
            )
        if self.refresh not in _REFRESH:
            raise ArgumentError(f"Unknown value {self.refresh!r} for argument refresh. Valid values are {_REFRESH}.")
        for name in ("workers", "shard_bytes", "num_shards"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ArgumentError(f"Argument {name} is {value!r}; it must be a whole number, 1 or more.")
        if self.shard_bytes and self.num_shards:
            raise ArgumentError(
                "shard_bytes and num_shards (--shard-size and --shards) are both given; one follows from the other."
            )

    @classmethod
    def of(cls, given: Mapping[str, Any], function: str, kind: type[NewOptions] = PrepareOptions) -> Self:
        """Return a caller's options; reject unknown ones as Python rejects unknown arguments.

        Args:
            given: The keyword arguments.
            function: The called function, for the error: "merge()".
            kind: The options that the function takes.

        Raises:
            TypeError: An option does not exist.
            ArgumentError: An option has an invalid value.
        """
        for name in given:
            if name not in kind.__annotations__:
                raise TypeError(f"{function} got an unexpected keyword argument {name!r}")
        return cls(**given)

    @property
    def layout(self) -> dict[str, int]:
        """Return the given one of `shard_bytes` and `num_shards`, if any."""
        return {name: value for name in ("shard_bytes", "num_shards") if (value := getattr(self, name)) is not None}


DEFAULTS = Options()
