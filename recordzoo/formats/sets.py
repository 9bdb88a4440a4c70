"""The files behind a path: numbered shards, braces, splits, and a check that none is missing."""

import itertools
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os.path import commonpath
from pathlib import Path
from posixpath import basename, dirname, splitext

from recordzoo.errors import ArgumentError
from recordzoo.formats.base import SPLITS, Piece, fault, split_name
from recordzoo.recipes.declared import SPLIT_NAMES

TAR_ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
MAX_NAMES = 1_000_000

_NUMBERED = re.compile(
    r"(?P<prefix>.*?)[-_.]?(?P<number>\d+)-of-(?P<total>\d{1,6})(-[0-9a-f]+)?(?P<ending>\D*|\..*)", re.DOTALL
)
_NUMBER = re.compile(r"(?P<prefix>.*?)[-_.]?(?P<number>\d+)(?:-of-(?P<total>\d{1,9}))?", re.DOTALL)
_NUM_NAMED = 10
_GROUP = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d{1,18})\.\.(\d{1,18})(?:\.\.(\d{1,18}))?")
_DEPTH = 3
_GENERIC = ("", "data", "dataset", "part", "shard", "file", "chunk")


def expand(text: str) -> list[str]:
    """Expand braces to names; the last group changes fastest, as in a shell.

    A group is a range of numbers, with a step if there is a third number (``{00..10..2}``), or a list. Numbers have the
    digits of the longer end if one begins with 0. Anything else in braces stands for itself.
    """
    parts: list[Sequence[str]] = []
    for number, part in enumerate(_GROUP.split(text)):
        parts.append(_choices(part) if number % 2 else [part])
        if math.prod(map(len, parts)) > MAX_NAMES:
            raise ArgumentError(f"{text} stands for more than {MAX_NAMES:,} names.")
    return ["".join(choice) for choice in itertools.product(*parts)]


def without_braces(text: str) -> str:
    """Leave out groups in braces, with what joins them to the text before: ``train.tar`` of ``train-{00..12}.tar``."""
    return re.sub(r"[-_.]?\{[^{}]*\}", "", text)


def _choices(group: str) -> Sequence[str]:
    match = _RANGE.fullmatch(group)
    if match is None:
        return group.split(",") if "," in group else [f"{{{group}}}"]
    ends = match[1], match[2]
    width = max(map(len, ends)) if any(end.startswith("0") and end != "0" for end in ends) else 0
    first, last = map(int, ends)
    step = max(1, int(match[3] or 1))
    numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    if len(numbers) > MAX_NAMES:
        raise ArgumentError(f"{{{group}}} stands for more than {MAX_NAMES:,} names.")
    return [f"{number:0{width}d}" for number in numbers]


def shard_pieces(files: Sequence[Path], endings: Sequence[str]) -> list[Piece]:
    """Return a piece for each file, called as the file without its ending."""
    folder = Path(commonpath([path.parent for path in files]))
    names = [path.relative_to(folder).as_posix() for path in files]
    stems = [_stem(name, endings) for name in names]
    stems = stems if len(set(stems)) == len(stems) else names  # the same name with another ending
    return [
        Piece(stem, path.stat().st_size, (path,), split=split)
        for stem, path, split in zip(stems, files, split_names(stems), strict=True)
    ]


def _stem(name: str, endings: Sequence[str]) -> str:
    ending = max((each for each in endings if name.lower().endswith(each)), key=len, default="")
    return name[: len(name) - len(ending)]


def find_shards(location: str, endings: Sequence[str]) -> list[Path]:
    """Find the shards of a path, in the order of their names; with braces, in the order of the expression.

    In a directory without any, folders called ``train``, ``val``, ... or ``data`` are looked at, and such in these.
    """
    path = Path(location)
    if path.is_dir():
        files = _inside(path, endings) or [
            file for folder in _split_folders(path) for file in _inside(folder, endings) or _below(folder, endings)
        ]
        refuse_missing([path.name for path in files], location)
        return files
    if not location.lower().endswith(tuple(endings)):
        return []
    if path.is_file() or "{" not in location:
        return [path] if path.is_file() else []
    files = [Path(name) for name in expand(location)]
    _refuse([each.name for each in files if not each.is_file()], len(files), location)
    twice = next((path for path, count in Counter(files).items() if count > 1), None)
    if twice is not None:
        raise fault(location, f": it names {twice.name} twice.")
    return files


def _inside(folder: Path, endings: Sequence[str]) -> list[Path]:
    there = sorted(folder.iterdir())
    return [path for path in there if path.name.lower().endswith(tuple(endings)) and _is_shown(path)]


def _split_folders(folder: Path) -> list[Path]:
    return [each for each in sorted(folder.iterdir()) if each.name.lower() in (*SPLIT_NAMES, "data") and each.is_dir()]


def _below(folder: Path, endings: Sequence[str]) -> list[Path]:
    return [file for inner in _split_folders(folder) for file in _inside(inner, endings)]


def _is_shown(path: Path) -> bool:
    return not path.name.startswith(".") and path.is_file()


def refuse_missing(names: Iterable[str], where: str) -> None:
    """Raise if numbered files are incomplete: ``train-00000-of-00008.tar``."""
    sets: dict[tuple[str, int, str, str], set[int]] = {}
    for match in filter(None, map(_NUMBERED.fullmatch, names)):
        start = match.string[: match.start("number")]
        key = start, len(match["number"]), match["total"], match["ending"]
        sets.setdefault(key, set()).add(int(match["number"]))
    for (start, width, total, end), there in sorted(sets.items()):
        missing = [number for number in range(int(total)) if number not in there]
        _refuse([f"{start}{number:0{width}d}-of-{total}{end}" for number in missing], int(total), where)


def _refuse(missing: Sequence[str], count: int, where: str) -> None:
    if missing:
        raise fault(
            where,
            f": {len(missing)} of {count} files are missing: {', '.join(missing[:_NUM_NAMED])}"
            f"{' and more' if len(missing) > _NUM_NAMED else ''}.",
        )


def split_names(stems: Sequence[str], *, is_any: bool = False) -> list[str]:
    """Return the split of each file: the text before its number, or its folder; "" if all are equal.

    Args:
        stems: The files' names without endings.
        is_any: Whether any word is a split, the last one before the number. Otherwise a word that is no usual one is a
            split only if all files are numbered.
    """
    prefixes = [_prefix(stem) for stem in stems]
    short = {prefix: _short(prefix, is_any=is_any) for prefix in prefixes}
    if len(set(short.values())) < len(short):
        short = {prefix: split_name(prefix) for prefix in prefixes}
    has_splits = len(short) > 1 and (is_any or all(map(_split_words, prefixes)) or all(map(_NUMBER.fullmatch, stems)))
    return [short[prefix] if has_splits else "" for prefix in prefixes]


def _prefix(stem: str) -> str:
    """Return the part of a name that shards of a split share: ``train`` of ``train-000012`` and ``train/000012``."""
    match = _NUMBER.fullmatch(stem)
    return (match["prefix"] if match else stem).rstrip("/-_.")


def _short(prefix: str, *, is_any: bool) -> str:
    """Return its last word that is a usual split; otherwise all of it, or its last word."""
    words = _split_words(prefix)
    return split_name(words[-1] if words else (prefix.rpartition("-")[2] or prefix) if is_any else prefix)


def _split_words(text: str) -> list[str]:
    return [word for word in re.split(r"[^a-zA-Z0-9]+", text) if word.lower() in SPLIT_NAMES]


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


def tables_below(folder: Path) -> dict[str, int]:
    """Return the size in bytes of each file in a folder, three levels deep, by name; hidden ones are left out."""
    found = {}
    for place, folders, files in os.walk(folder):
        inner = Path(place).relative_to(folder)
        folders[:] = sorted(name for name in folders if not name.startswith(".")) if len(inner.parts) < _DEPTH else []
        for name in files:
            if name.endswith((".parquet", ".arrow")) or name == "state.json":
                found[(inner / name).as_posix()] = (Path(place) / name).stat().st_size
    return found


def table_files(location: str, sizes: Mapping[str, int]) -> list[TableFile]:
    """Choose the files of a dataset: Parquet, or if there are none Arrow; in the order of their names.

    Args:
        location: For messages.
        sizes: The size of each file by name.
    """
    saved = {dirname(name) for name in sizes if basename(name) == "state.json"}
    for ending in (".parquet", ".arrow"):
        names = [name for name in sorted(sizes) if name.endswith(ending) and _is_data(name, saved)]
        if names:
            break
    splits = {name: dirname(name) if dirname(name) in saved else _split(name) for name in names}
    _check_one_dataset(location, splits)
    refuse_missing(names, location)
    is_split = len(set(splits.values())) > 1
    return [
        TableFile(name, sizes[name], split_name(split) if is_split or _is_said(name, split) else "")
        for name, split in splits.items()
    ]


def _is_data(name: str, saved: set[str]) -> bool:
    """Whether a file holds data: not hidden, and not a cache file of `map` and `filter` in a saved dataset."""
    if any(part.startswith(".") for part in name.split("/")):
        return False
    base = basename(name)
    return base.startswith(("data-", "dataset")) if dirname(name) in saved else not base.startswith(("cache-", "tmp"))


def _split(name: str) -> str:
    """Return the split in a file's name: the word before the number, or else the folder."""
    stem = splitext(basename(name))[0]
    match = _NUMBERED.fullmatch(stem)
    prefix = match["prefix"] if match else re.sub(r"[-_.]?\d+$", "", stem)
    word = prefix.rpartition("-")[2]
    if word in _GENERIC:
        folder = basename(dirname(name)).removeprefix("partial-")
        return "" if folder in _GENERIC else folder
    return word


def _is_said(name: str, split: str) -> bool:
    """Whether a dataset's only split is marked as one: by a usual word, or by numbered files."""
    return split in SPLITS or (_NUMBERED.fullmatch(splitext(basename(name))[0]) is not None and split != "")


def _check_one_dataset(location: str, splits: Mapping[str, str]) -> None:
    """Raise if a split's files are in several folders: these are configurations, each a dataset."""
    for split in set(splits.values()):
        folders = sorted({dirname(name) for name, each in splits.items() if each == split})
        if len(folders) > 1:
            raise ArgumentError(
                f"{location} has several datasets, in the folders {', '.join(folders[:10])}"
                f"{' and more' if len(folders) > 10 else ''}. Name one: {location.rstrip('/')}/{folders[-1]}"
            )
