"""`merge`: the records of several sets as one set."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.progress import Progress
from recordzoo.base.text import name_first
from recordzoo.base.types import JSON
from recordzoo.combining.linking import Numbers, link
from recordzoo.combining.new_set import said_of
from recordzoo.errors import ArgumentError
from recordzoo.records.manifest import SPLIT_PATTERN, Manifest
from recordzoo.records.reader import RecordReader

_CLASSES = ("equal", "union")

_FORM: dict[str, JSON] = {"parts": {}, "tensors": [], "pictures": {}}


def merge(
    sets: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    classes: Literal["equal", "union"] = "equal",
    splits: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Concatenate the records of several sets in a new record set; `recordzoo.open` opens it.

    The sets must have the same fields, encodings and variant. Splits of the same name are concatenated. A name that
    several sets have is prefixed with its set's name: ``a/0001.jpg``.

    The new set shares the shards of the sets by hard links; from another file system or a URL they are cloned or
    copied, and their hashes compared. The sets stay as they are, and the new set does not need them. The same sets
    always give the same bytes. An existing set made from these sets is left unchanged.

    Args:
        sets: The record sets: directories or URLs.
        output: The new set's directory: ``all.records``.
        classes: "equal": the sets must have the same classes. "union": classes are united by name, in order of first
            appearance, and labels are renumbered.
        splits: For sets as given in `sets`, the one split of all their records; their own splits are dropped:
            ``{"a.records": "train", "b.records": "val"}``.
        progress: Receives the progress. Default: as in `OwnOptions`.

    Returns:
        The new set's directory.

    Raises:
        ArgumentError: The sets do not fit together: the message names the field, or the classes; or an argument is
            invalid.
        CorruptRecordError: A shard that is copied is damaged; nothing is published.
        OtherSourceError: `output` holds something else.
        ManifestError: There is no record set at a path.
        PrepareError: The disk is full, or a process was killed; run it again.

    Examples:
        >>> import recordzoo
        >>> recordzoo.merge(["2025.records", "2026.records"], "all.records", classes="union")  # doctest: +SKIP
        PosixPath('/home/me/all.records')
    """
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
    readers = [RecordReader(path) for path in given]
    new_splits = [named.get(path, "") for path in given]
    _check_alike(readers)
    names, numbers = _united_classes(readers) if classes == "union" else _equal_classes(readers)
    made_of: dict[str, JSON] = {
        "sets": [
            said_of(reader, **({"as_split": split} if split else {}))
            for reader, split in zip(readers, new_splits, strict=True)
        ],
        "classes": classes,
        "shards": "linked",
    }
    return link(readers, output, made_of, _joined_splits(readers, new_splits), names, numbers, progress)


def _check_alike(readers: Sequence[RecordReader]) -> None:
    """Refuse sets whose records differ in their fields."""
    first, before = readers[0], _facts(readers[0].manifest)
    for reader in readers[1:]:
        now = _facts(reader.manifest)
        for what in dict.fromkeys([*before, *sorted(now)]):
            old, new = before.get(what, "absent"), now.get(what, "absent")
            if old != new:
                is_stored_again = [old.startswith("raw "), new.startswith("raw ")].count(True) == 1
                name = what.removeprefix("the field ")
                hint = f"; convert it again with kinds={{{name}: 'raw'}} where it is no raw field"
                raise ArgumentError(
                    f"{first.path} and {reader.path} cannot be merged: {what} is {old} in the first, {new} in the "
                    f"second{hint if is_stored_again and 'absent' not in (old, new) else ''}."
                )


def _facts(manifest: Manifest) -> dict[str, str]:
    """Describe what must be the same in all sets: variant, meaning and encoding of each field, form of the samples."""
    found = {"the variant": manifest.variant}
    for name, blob in manifest.blobs.items():
        encoding = blob.encoding
        if encoding == "raw":
            shape = manifest.arrays.get(f"{name}.shape")
            dimensions = shape.shape[1] if shape is not None else len(blob.shape or ())
            encoding = f"raw {np.dtype(blob.dtype).name} with {dimensions} dimensions"
        found[f"the field {name!r}"] = encoding
    for name in manifest.columns:
        spec = manifest.arrays[name]
        found[f"the field {name!r}"] = f"{np.dtype(spec.dtype).name} {list(spec.shape[1:])}"
    form = manifest.metadata.get("sample")
    given = form if isinstance(form, dict) else {}
    found["the form of a sample"] = json.dumps({key: given.get(key) or empty for key, empty in _FORM.items()})
    return found


def _equal_classes(readers: Sequence[RecordReader]) -> tuple[Sequence[str] | None, list[Numbers]]:
    """Return the classes that all sets have."""
    first = readers[0].manifest.classes
    for reader in readers:
        classes = reader.manifest.classes
        if classes != first:
            raise ArgumentError(
                f"{readers[0].path} and {reader.path} have different classes: {_difference(first, classes)}. "
                "Pass --classes union (classes='union') to unite them by name."
            )
    return first, [None for _ in readers]


def _difference(first: Sequence[str] | None, other: Sequence[str] | None) -> str:
    if first is None or other is None:
        return "one of them has no class names"
    missing = [name for name in first if name not in other] + [name for name in other if name not in first]
    if not missing:
        return "the same names in another order"
    return f"{name_first(missing, 3)} {'is' if len(missing) == 1 else 'are'} in one of them only"


def _united_classes(readers: Sequence[RecordReader]) -> tuple[Sequence[str], list[Numbers]]:
    """Unite classes by name, in order of appearance; return them, and the new number of each class of each set."""
    united: dict[str, int] = {}
    numbers: list[Numbers] = []
    for reader in readers:
        classes = reader.manifest.classes
        if classes is None or reader.manifest.label_field is None:
            raise ArgumentError(f"{reader.path} has no class names: its classes cannot be united with others.")
        if len(set(classes)) != len(classes):
            raise ArgumentError(f"{reader.path} has two classes of one name: they cannot be united with others.")
        new = [united.setdefault(name, len(united)) for name in classes]
        numbers.append(None if new == list(range(len(new))) else new)
    return tuple(united), numbers


def _joined_splits(readers: Sequence[RecordReader], as_splits: Sequence[str]) -> dict[str, NDArray[np.int64]]:
    """Return the splits of all sets; a set that is one split has no others."""
    found: dict[str, list[NDArray[np.int64]]] = {}
    start = 0
    for reader, as_split in zip(readers, as_splits, strict=True):
        own = [as_split] if as_split else reader.manifest.splits
        for name in own:
            places = np.arange(len(reader)) if as_split else np.asarray(reader.split(name), np.int64)
            found.setdefault(name, []).append(places + start)
        start += len(reader)
    return {name: np.concatenate(places) for name, places in found.items()}
