"""`merge`: concatenate the records of several sets."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Unpack

from recordzoo.combining.making import make_combined
from recordzoo.errors import ArgumentError
from recordzoo.preparing import Options, OwnOptions
from recordzoo.recipes.from_sets.part import SetPart
from recordzoo.records.manifest import SPLIT_PATTERN
from recordzoo.records.reader import RecordReader

_CLASSES = ("equal", "union")


def merge(
    sets: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    classes: Literal["equal", "union"] = "equal",
    splits: Mapping[str, str] | None = None,
    **options: Unpack[OwnOptions],
) -> Path:
    """Concatenate the records of several sets in a new record set; `recordzoo.open` opens it.

    The sets must have the same fields, encodings and variant. Splits of the same name are concatenated. A name that
    several sets have is prefixed with its set's name: ``a/0001.jpg``.

    The new set shares the shards of the sets by hard links; on another file system they are cloned or copied. Values
    are copied in parallel, with their CRC-32s compared, if a set is at a URL or if one of the options `executor`,
    `shard_bytes`, `num_shards`, `on_error` and `check_images` is given. The same sets and options always give the same
    bytes. An existing set made from these sets is left unchanged.

    Args:
        sets: The record sets: directories or URLs.
        output: The new set's directory: ``all.records``.
        classes: "equal": the sets must have the same classes. "union": classes are united by name, in order of first
            appearance, and labels are renumbered.
        splits: For sets as given in `sets`, the one split of all their records; their own splits are dropped:
            ``{"a.records": "train", "b.records": "val"}``.
        **options: See `OwnOptions`.

    Returns:
        The new set's directory.

    Raises:
        ArgumentError: The sets do not fit together: the message names the field, or the classes; or an argument is
            invalid.
        CorruptRecordError: A value is damaged; nothing is published.
        OtherSourceError: `output` holds something else.
        ManifestError: There is no record set at a path.
        PrepareError: The disk is full, or a process was killed; finished work is kept.

    Examples:
        >>> import recordzoo
        >>> recordzoo.merge(["2025.records", "2026.records"], "all.records", classes="union")  # doctest: +SKIP
        PosixPath('/home/me/all.records')
    """
    wanted = Options.of(options, "merge()", OwnOptions)
    if isinstance(sets, str | os.PathLike):
        raise ArgumentError(f"Argument sets is {sets!r}; it must be a list of record sets.")
    if not sets:
        raise ArgumentError("Argument sets is empty; it must name the record sets to merge.")
    if classes not in _CLASSES:
        raise ArgumentError(f"Unknown value {classes!r} for argument classes. Valid values are {_CLASSES}.")
    named = {os.fspath(path): split for path, split in (splits or {}).items()}
    given = [os.fspath(path) for path in sets]
    for path, split in named.items():
        if path not in given:
            raise ArgumentError(f"Argument splits names {path!r}, which is none of the sets.")
        if not SPLIT_PATTERN.fullmatch(split):
            raise ArgumentError(f"{split!r} is no name of a split: small letters, digits and hyphens.")
    parts = [SetPart(RecordReader(path), split=named.get(path, "")) for path in given]
    return make_combined(parts, output, wanted, unite=classes == "union")
