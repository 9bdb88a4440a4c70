"""Estimate what a dataset takes: room on the disk, and time to convert it."""

from dataclasses import dataclass

CONVERT_SPEED = 130e6
"""Bytes of raw data that one core converts per second: `benchmarks/prepare_imagenet.py`, 1.1 GB in 8.3 s of CPU."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What it takes to prepare a dataset by its name: estimates. None: unknown, because a file's size is unknown.

    Attributes:
        kept_bytes: The record sets, which stay on the disk; the raw files may be deleted then.
        needed_bytes: Record sets and raw files together: the peak of disk during the preparation.
        convert_seconds: Time to convert on one core, at `CONVERT_SPEED`; without the download, and on a fast disk.
    """

    kept_bytes: int | None = None
    needed_bytes: int | None = None
    convert_seconds: float | None = None
