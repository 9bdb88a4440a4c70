"""The shards that a path stands for: one file, the files of a directory, or all names of an expression with braces."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from os.path import commonpath
from pathlib import Path

from recordzoo.errors import SourceError
from recordzoo.formats.base import Piece, split_name
from recordzoo.formats.braces import expand
from recordzoo.recipes.class_folders import SPLIT_NAMES

TAR_ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")

_NUMBER = re.compile(r"(?P<prefix>.*?)[-_.]?(?P<number>\d+)(?:-of-(?P<total>\d{1,9}))?", re.DOTALL)
_NUM_NAMED = 10


@dataclass(frozen=True)
class Shards:
    """Some files, in their order.

    Attributes:
        files: The files; none: there are none.
        endings: What their names may end with.
    """

    files: Sequence[Path]
    endings: Sequence[str]

    def pieces(self) -> list[Piece]:
        """Return a piece for each file; its split is what stands before its number, or its folder, if these differ."""
        folder = Path(commonpath([path.parent for path in self.files]))
        stems = [self._stem(path.relative_to(folder).as_posix()) for path in self.files]
        if len(set(stems)) < len(stems):  # the same name with another ending
            stems = [path.relative_to(folder).as_posix() for path in self.files]
        prefixes = [_prefix(stem) for stem in stems]
        short = {prefix: _short(prefix) for prefix in prefixes}
        if len(set(short.values())) < len(short):
            short = {prefix: split_name(prefix) for prefix in prefixes}
        has_splits = len(short) > 1 and (all(map(_is_split, prefixes)) or all(map(_NUMBER.fullmatch, stems)))
        return [
            Piece(stem, path.stat().st_size, (path,), split=short[prefix] if has_splits else "")
            for stem, path, prefix in zip(stems, self.files, prefixes, strict=True)
        ]

    def _stem(self, name: str) -> str:
        ending = max((each for each in self.endings if name.lower().endswith(each)), key=len, default="")
        return name[: len(name) - len(ending)]


def find_shards(location: str, endings: Sequence[str]) -> Shards:
    """Find the shards that a path stands for, in the order of their names; of braces, in that of the expression.

    In a directory without any, folders called ``train``, ``val``, ... or ``data`` are looked at, too.

    Raises:
        ArgumentError: Braces stand for too many names.
        SourceError: A shard that braces or the names of others ask for is missing.
    """
    path = Path(location)
    if path.is_dir():
        files = _inside(path, endings)
        folders = () if files else sorted(path.iterdir())
        for folder in folders:
            if folder.is_dir() and folder.name.lower() in (*SPLIT_NAMES, "data"):
                files += _inside(folder, endings)
        _refuse_gaps(files, location)
        return Shards(files, endings)
    if not location.lower().endswith(tuple(endings)):
        return Shards([], endings)
    if path.is_file() or "{" not in location:
        return Shards([path] if path.is_file() else [], endings)
    files = [Path(name) for name in expand(location)]
    _refuse([each.name for each in files if not each.is_file()], len(files), location)
    twice = next((path for path, count in Counter(files).items() if count > 1), None)
    if twice is not None:
        raise SourceError(f"{location}: it names {twice.name} twice.", path=location)
    return Shards(files, endings)


def _inside(folder: Path, endings: Sequence[str]) -> list[Path]:
    there = sorted(folder.iterdir())
    return [path for path in there if path.name.lower().endswith(tuple(endings)) and _is_shown(path)]


def _is_shown(path: Path) -> bool:
    return not path.name.startswith(".") and path.is_file()


def _refuse_gaps(files: Sequence[Path], where: str) -> None:
    """Refuse shards ``train-00000-of-00008.tar`` of which some are missing."""
    there = {path.name for path in files}
    matches = [re.fullmatch(r"(.*?)(\d+)-of-(\d{1,6})(\D*)", name, re.DOTALL) for name in there]
    for start, width, total, end in sorted({(m[1], len(m[2]), m[3], m[4]) for m in matches if m is not None}):
        names = [f"{start}{each:0{width}d}-of-{total}{end}" for each in range(int(total))]
        _refuse([name for name in names if name not in there], len(names), where)


def _refuse(missing: Sequence[str], count: int, where: str) -> None:
    if missing:
        raise SourceError(
            f"{where}: {len(missing)} of {count} files are missing: {', '.join(missing[:_NUM_NAMED])}"
            f"{' and more' if len(missing) > _NUM_NAMED else ''}.",
            path=where,
        )


def _prefix(stem: str) -> str:
    """Return what tells the shards of a split: ``train`` of ``train-000012`` and of ``train/000012``."""
    match = _NUMBER.fullmatch(stem)
    return (match["prefix"] if match else stem).rstrip("/-_.")


def _short(prefix: str) -> str:
    """Return the last word of it that is called as a split; otherwise all of it."""
    return split_name((_split_words(prefix) or [prefix])[-1])


def _is_split(prefix: str) -> bool:
    return bool(_split_words(prefix))


def _split_words(text: str) -> list[str]:
    return [word for word in re.split(r"[^a-zA-Z0-9]+", text) if word.lower() in SPLIT_NAMES]
