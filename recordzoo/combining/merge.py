"""`merge`: concatenate the records of several sets; `append`: add records to a set."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Unpack

from recordzoo import zoo
from recordzoo.base.progress import Progress
from recordzoo.base.text import name_first
from recordzoo.combining.making import make_combined, make_linked
from recordzoo.errors import ArgumentError
from recordzoo.net.url import is_url
from recordzoo.preparing import Options, OwnOptions
from recordzoo.recipes.from_sets.part import SetPart
from recordzoo.records.manifest import SPLIT_PATTERN
from recordzoo.records.reader import RecordReader, is_record_set

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
        _check_split(split)
    parts = [SetPart(RecordReader(path), split=named.get(path, "")) for path in given]
    return make_combined(parts, output, wanted, unite=classes == "union")


def _check_split(name: str) -> None:
    if not SPLIT_PATTERN.fullmatch(name):
        raise ArgumentError(f"{name!r} is no name of a split: small letters, digits and hyphens.")


def append(
    records: str | os.PathLike[str],
    more: str | os.PathLike[str],
    *,
    output: str | os.PathLike[str] | None = None,
    split: str | None = None,
    refresh: bool | Literal["if-changed"] = False,
    progress: Progress | None = None,
) -> Path:
    """Add records to a record set. Its records stay first, with their names and class numbers.

    Shards are shared by hard links: only arrays are written, and new records that are not a record set yet. Without
    `output` the set is replaced atomically: a reader sees the old set or the new one. Appending the same `more` again
    changes nothing.

    Args:
        records: The record set's directory.
        more: The new records: a record set's directory, or anything that `recordzoo.prepare` takes; it is prepared
            first, and its own record set stays. The fields and their encodings must be the same. New classes follow the
            existing ones. A name that both have is prefixed with the name of `more`.
        output: The new set's directory; `records` stays as it is. Default: `records` is replaced.
        split: The split of the new records. Default: they keep their splits; splits of the same name are concatenated.
        refresh: With `output`: as in `OwnOptions`.
        progress: Receives the progress.

    Returns:
        The directory of the larger set.

    Raises:
        ArgumentError: The sets do not fit together: the message names the field, or the classes; or one is at a URL.
        OtherSourceError: `output` holds something else, or another process changed the set during the call.
        ManifestError: There is no record set at `records`.
        RecordZooError: As `prepare`, of `more`.

    Examples:
        >>> import recordzoo
        >>> recordzoo.append("photos.records", "new-photos")  # doctest: +SKIP
        PosixPath('/home/me/photos.records')
    """
    if split is not None:
        _check_split(split)
    options = Options(refresh=refresh, progress=progress)
    first = SetPart(RecordReader(records))
    second = SetPart(RecordReader(_prepared(more, progress)), split=split or "")
    if output is None and _has(first.reader, second.reader.digest):
        return first.reader.folder
    unite = first.reader.manifest.classes != second.reader.manifest.classes
    return make_linked([first, second], output, options, unite=unite, keeps_names=True)


def _prepared(more: str | os.PathLike[str], progress: Progress | None) -> str | os.PathLike[str]:
    """Return the record set of the new records."""
    if is_url(more) or is_record_set(Path(more).expanduser()):
        return more
    made = zoo.prepare(more, download=False, progress=progress)
    if len(made) > 1:
        raise ArgumentError(
            f"{os.fspath(more)} gives several record sets: {name_first(list(map(str, made)), 3)}. Name one."
        )
    return made[0]


def _has(reader: RecordReader, digest: str) -> bool:
    """Whether a set with this digest was the last one appended."""
    made_of = reader.manifest.metadata.get("made_of")
    sets = made_of.get("sets") if isinstance(made_of, dict) and made_of.get("names") == "kept" else None
    return isinstance(sets, list) and bool(sets) and isinstance(sets[-1], dict) and sets[-1].get("digest") == digest
