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


class OwnOptions(TypedDict, total=False):
    """How a record set of one's own data is made; all optional, all keyword-only.

    Attributes:
        workers: Processes that convert. Default: the cores that this process may use, 8 at most; one for less than
            16 MiB of files.
        executor: A ``concurrent.futures.Executor`` whose workers convert instead: a pool of threads or processes,
            Dask's ``client.get_executor()``, ... They may be on other hosts that see the same directories; see
            ``docs/guides/cluster.md``. It is left running.
        shard_bytes: Target shard size in bytes. Default: data size / 8, clipped to 64 MiB..1 GiB. For variants:
            estimated size / 32, clipped to 16 MiB..1 GiB.
        num_shards: Exactly how many shards there are, instead; not of archives, which are read front to back.
        on_error: What to do with an encoded image whose header no decoder recognises: "keep" it as it is (default;
            reading it raises, as in torchvision), "skip" it, or "raise". A file of more than 1 GiB can only be skipped.
        check_images: Decode each image while converting, and treat one that cannot be decoded as `on_error` says.
            Default: only headers are read, which is faster; damage further back is an error when the image is read.
        refresh: True: rebuild the record set and replace the existing one atomically. "if-changed": only if it holds
            something else than what is asked for, or if raw files of a tree or a list have changed since; all are
            compared. Default: use what is there, or raise.
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
    refresh: bool | Literal["if-changed"]
    progress: Progress | None


class PrepareOptions(OwnOptions, total=False):
    """How a record set is found or made: these, and those of `OwnOptions`; all optional, all keyword-only.

    Attributes:
        prepare: True: convert raw data that is there, however large. False: never convert. Default: convert up to
            20 GB (``RECORDZOO_AUTO_PREPARE_GB``).
        records_dir: The record set's own directory, instead of ``<root>/<name>.records``.
        mirror: Base URL tried before the official hosts, as ``<mirror>/<dataset>/<file>``; default
            ``RECORDZOO_MIRROR``.
        check_hash: Compare raw archives with the known hash (default). False is for an archive that you re-packed.
        accept_terms: You accept the terms of access of the dataset's files (see ``recordzoo info``).
        discard_raw: Delete the archives that this preparation downloaded once the records are published.
        variant: Images are stored smaller or otherwise encoded, in a record set of their own: "256" for a short side of
            256 pixels, "max512", "256-raw", ...; see ``docs/variants.md``. Default: untouched.
        cache_bytes: Of a record set at a URL: what the cache of this machine may take, in bytes. Default:
            ``RECORDZOO_CACHE_BYTES``.
    """

    prepare: bool | None
    records_dir: str | os.PathLike[str] | None
    mirror: str | None
    check_hash: bool
    accept_terms: bool
    discard_raw: bool
    variant: str | None
    cache_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The values of all options, checked: what `PrepareOptions` names, and the defaults.

    Raises:
        ArgumentError: An option has a value that it cannot have, or two options exclude each other.
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
    accept_terms: bool = False
    discard_raw: bool = False
    variant: str | None = None
    cache_bytes: int | None = None

    def __post_init__(self) -> None:
        self._check_executor()
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

    def _check_executor(self) -> None:
        given: object = self.executor
        if given is None:
            return
        if not isinstance(given, Executor):
            hint = " Pass client.get_executor()." if hasattr(given, "get_executor") else ""
            raise ArgumentError(
                f"Argument executor is {type(given).__name__!r}; it must be a concurrent.futures.Executor.{hint}"
            )
        if self.workers is not None:
            raise ArgumentError(
                f"workers={self.workers} and executor are both given; an executor has its own workers. Pass one."
            )

    @classmethod
    def of(cls, given: Mapping[str, Any], function: str, kind: type[OwnOptions] = PrepareOptions) -> Self:
        """Return the options that a caller gave; refuse one that does not exist, as Python refuses an argument.

        Args:
            given: The keyword arguments.
            function: Which function got them, for the error: "merge()".
            kind: The options that the function takes.

        Raises:
            TypeError: One does not exist.
            ArgumentError: One has a value that it cannot have.
        """
        for name in given:
            if name not in kind.__annotations__:
                raise TypeError(f"{function} got an unexpected keyword argument {name!r}")
        return cls(**given)

    @property
    def layout(self) -> dict[str, int]:
        """Those options that were given of the two which show in how a record set is cut; one at most."""
        return {name: value for name in ("shard_bytes", "num_shards") if (value := getattr(self, name)) is not None}


DEFAULTS = Options()
