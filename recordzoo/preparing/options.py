"""The options that every dataset's constructor and `recordzoo prepare` share."""

import os
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any, Literal, TypedDict

from recordzoo.errors import ArgumentError
from recordzoo.progress import Progress


class PrepareOptions(TypedDict, total=False):
    """How a record set is found or made; all optional, all keyword-only.

    Attributes:
        prepare: True: convert raw data that is there, however large. False: never convert. Default: convert up to
            20 GB (``RECORDZOO_AUTO_PREPARE_GB``).
        records_dir: The record set's own directory, instead of ``<root>/<name>.records``.
        mirror: Base URL tried before the official hosts, as ``<mirror>/<dataset>/<file>``; default
            ``RECORDZOO_MIRROR``.
        workers: Processes that convert. Default: the cores that this process may use, 8 at most; one for less than
            16 MiB of raw data.
        executor: A ``concurrent.futures.Executor`` whose workers convert instead: a pool of threads or processes,
            Dask's ``client.get_executor()``, ... They may be on other hosts that see the same directories; see
            ``docs/guides/cluster.md``. It is left running.
        check_hash: Compare raw archives with the known hash (default). False is for an archive that you re-packed.
        accept_terms: You accept the terms of access of the dataset's files (see ``recordzoo info``).
        discard_raw: Delete the archives that this preparation downloaded once the records are published.
        on_error: What to do with an image whose header no decoder recognises: "keep" it as it is (default; reading it
            raises, as in torchvision), "skip" it, or "raise". A file of more than 1 GiB can only be skipped.
        check_images: Decode each image while converting, and treat one that cannot be decoded as `on_error` says.
            Default: only headers are read, which is faster; damage further back is an error when the image is read.
        refresh: True: rebuild the record set and replace the existing one atomically. "if-changed": only if raw files
            of a tree or a list have changed since; all are compared. Default: use what is there.
        shard_bytes: Target shard size in bytes. Default: raw size / 8, clipped to 64 MiB..1 GiB. For variants:
            estimated size / 32, clipped to 16 MiB..1 GiB.
        num_shards: Exactly how many shards there are, instead; not of archives, which are read front to back.
        variant: Images are stored smaller or otherwise encoded, in a record set of their own: "256" for a short side of
            256 pixels, "max512", "256-raw", ...; see ``docs/variants.md``. Default: untouched.
        progress: Told how the work goes on; default: bars on a terminal or in a notebook; elsewhere a line
            on stderr at the start and end of each stage and every half minute, or through `logging` (logger
            "recordzoo") if that is configured. ``RECORDZOO_QUIET=1`` silences it.
        cache_bytes: Of a record set at a URL: what the cache of this machine may take, in bytes. Default:
            ``RECORDZOO_CACHE_BYTES``.
    """

    prepare: bool | None
    records_dir: str | os.PathLike[str] | None
    mirror: str | None
    workers: int | None
    executor: Executor | None
    check_hash: bool
    accept_terms: bool
    discard_raw: bool
    on_error: Literal["keep", "skip", "raise"]
    check_images: bool
    refresh: bool | Literal["if-changed"]
    shard_bytes: int | None
    num_shards: int | None
    variant: str | None
    progress: Progress | None
    cache_bytes: int | None


# Any: the options of `PrepareOptions` or `OwnOptions`.
def check_executor(options: Mapping[str, Any]) -> None:
    """Refuse what is no executor, and an executor beside a number of processes.

    Raises:
        ArgumentError: It is.
    """
    executor = options.get("executor")
    if executor is None:
        return
    if not isinstance(executor, Executor):
        hint = " Pass client.get_executor()." if hasattr(executor, "get_executor") else ""
        raise ArgumentError(
            f"Argument executor is {type(executor).__name__!r}; it must be a concurrent.futures.Executor.{hint}"
        )
    if options.get("workers") is not None:
        raise ArgumentError(
            f"workers={options['workers']} and executor are both given; an executor has its own workers. Pass one."
        )
