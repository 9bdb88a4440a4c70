"""Which files of a folder or a repository are one dataset of tables, and the splits that their names say."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from posixpath import basename, dirname, splitext

from recordzoo.errors import ArgumentError, SourceError
from recordzoo.formats.base import split_name

_DEPTH = 3
_SHARD = re.compile(r"(?P<prefix>.*?)-?(?P<number>\d{5})-of-(?P<total>\d{5})(?:-[0-9a-f]+)?")
_GENERIC = ("", "data", "dataset", "part", "shard", "file", "chunk")
_SPLITS = ("train", "training", "test", "testing", "validation", "valid", "val", "dev", "eval", "unsupervised")


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file of a dataset.

    Attributes:
        name: Its path below the dataset's folder, with "/".
        split: The split of its rows; "" if there are none.
    """

    name: str
    size_bytes: int
    split: str = ""

    @property
    def stem(self) -> str:
        """The name without its ending."""
        return splitext(self.name)[0]


def names_below(folder: Path) -> dict[str, int]:
    """Return the size in bytes of each file in a folder, three levels deep, by name; hidden ones are left out."""
    found = {}
    for place, folders, files in os.walk(folder):
        inner = Path(place).relative_to(folder)
        folders[:] = sorted(name for name in folders if not name.startswith(".")) if len(inner.parts) < _DEPTH else []
        for name in files:
            if name.endswith((".parquet", ".arrow")) or name == "state.json":
                found[(inner / name).as_posix()] = (Path(place) / name).stat().st_size
    return found


def layout(location: str, sizes: Mapping[str, int]) -> list[TableFile]:
    """Choose the files of a dataset: Parquet, or if there are none Arrow; in the order of their names.

    Args:
        location: For messages.
        sizes: The size of each file by name.

    Raises:
        ArgumentError: There are several datasets.
        SourceError: Numbered files are missing.
    """
    saved = {dirname(name) for name in sizes if basename(name) == "state.json"}
    for ending in (".parquet", ".arrow"):
        names = [name for name in sorted(sizes) if name.endswith(ending) and _is_data(name, saved)]
        if names:
            break
    splits = {name: dirname(name) if dirname(name) in saved else _split(name) for name in names}
    _check_one_dataset(location, splits)
    _check_complete(location, names)
    is_split = len(set(splits.values())) > 1
    return [
        TableFile(name, sizes[name], split_name(split) if is_split or _is_said(name, split) else "")
        for name, split in splits.items()
    ]


def _is_data(name: str, saved: set[str]) -> bool:
    """Whether a file has data: not one that is hidden, or that `map` and `filter` left in a saved dataset."""
    if any(part.startswith(".") for part in name.split("/")):
        return False
    base = basename(name)
    return base.startswith(("data-", "dataset")) if dirname(name) in saved else not base.startswith(("cache-", "tmp"))


def _split(name: str) -> str:
    """Return what a file's name says of its split: the word before the number, or else the folder."""
    stem = splitext(basename(name))[0]
    match = _SHARD.fullmatch(stem)
    prefix = match["prefix"] if match else re.sub(r"[-_.]?\d+$", "", stem)
    word = prefix.rpartition("-")[2]
    if word in _GENERIC:
        folder = basename(dirname(name)).removeprefix("partial-")
        return "" if folder in _GENERIC else folder
    return word


def _is_said(name: str, split: str) -> bool:
    """Whether a dataset's only split is said to be one: by a usual word, or by numbered files."""
    return split in _SPLITS or (_SHARD.fullmatch(splitext(basename(name))[0]) is not None and split != "")


def _check_one_dataset(location: str, splits: Mapping[str, str]) -> None:
    """Refuse files of one split in several folders: these are configurations, each a dataset."""
    for split in set(splits.values()):
        folders = sorted({dirname(name) for name, each in splits.items() if each == split})
        if len(folders) > 1:
            raise ArgumentError(
                f"{location} has several datasets, in the folders {', '.join(folders[:10])}"
                f"{' and more' if len(folders) > 10 else ''}. Name one: {location.rstrip('/')}/{folders[-1]}"
            )


def _check_complete(location: str, names: Iterable[str]) -> None:
    """Refuse numbered files of which some are missing."""
    numbers: dict[tuple[str, str, int], set[int]] = {}
    for name in names:
        if match := _SHARD.fullmatch(splitext(basename(name))[0]):
            numbers.setdefault((dirname(name), match["prefix"], int(match["total"])), set()).add(int(match["number"]))
    for (folder, prefix, total), there in numbers.items():
        missing: Sequence[int] = sorted(set(range(total)) - there)
        if missing:
            listed = ", ".join(f"{prefix}-{number:05d}-of-{total:05d}" for number in missing[:10])
            raise SourceError(
                f"{location}{f'/{folder}' if folder else ''}: {len(missing)} of {total} files are missing: {listed}"
                f"{' and more' if len(missing) > 10 else ''}.",
                path=location,
            )
