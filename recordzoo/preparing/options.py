"""The options that every dataset's constructor and `recordzoo prepare` share."""

import os
from typing import Literal, TypedDict

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
        check_hash: Compare raw archives with the known hash (default). False is for an archive that you re-packed.
        accept_terms: You accept the terms of access of the dataset's files (see ``recordzoo info``).
        discard_raw: Delete the archives that this preparation downloaded once the records are published.
        on_error: What to do with an image whose header no decoder recognises: "keep" it as it is (default; reading it
            raises, as in torchvision), "skip" it, or "raise". A file of more than 1 GiB can only be skipped.
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
    """

    prepare: bool | None
    records_dir: str | os.PathLike[str] | None
    mirror: str | None
    workers: int | None
    check_hash: bool
    accept_terms: bool
    discard_raw: bool
    on_error: Literal["keep", "skip", "raise"]
    refresh: bool | Literal["if-changed"]
    shard_bytes: int | None
    num_shards: int | None
    variant: str | None
    progress: Progress | None
