"""A tree of class folders, as torchvision's ImageFolder reads it; without classes, files and a table of labels.

Names of records become names of files: valid, unique in their folder, unchanged if possible.
"""

import csv
import hashlib
import io
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.base import durable
from recordzoo.formats.base import CLASSES_NAME
from recordzoo.formats.samples import Content, printable
from recordzoo.formats.writing import Files, Shard, Tick, Writer, json_line
from recordzoo.system.names import as_file_name

TABLE_NAME = "labels.csv"

_ENDING = re.compile(r"\.(jpe?g|png|ppm|bmp|pgm|tiff?|webp|gif)", re.IGNORECASE)
_MAX_BYTES = 200


class FolderWriter(Writer):
    """Writes ``split/class/name``. A shard is some of the files; it is only a piece of the work.

    A split without classes, or with labels beyond them, has no class folders.
    """

    name = "folder"
    shard_bytes = 64 << 20

    def __init__(self, content: Content, splits: Sequence[str]) -> None:
        super().__init__(content, splits)
        self._classes = class_folders(content.classes)
        self._has_classes: dict[str, bool] = {}

    @override
    def paths(self, split: str, positions: NDArray[np.int64]) -> list[str]:
        """See `Writer`; without a suffix if the image's bytes decide it."""
        names = [self.content.reader.names[position] for position in positions.tolist()]
        if self.content.is_raw:
            names = [split_ending(name)[0] for name in names]
        field = self.content.label_field
        labels = np.full(len(names), -1) if field is None else self.content.reader.array(field)[positions]
        known = bool(labels.min() >= 0 and labels.max() < len(self._classes))
        self._has_classes[split] = known
        classes = [self._classes[label] for label in labels.tolist()] if known else [""] * len(names)
        return unique(names, [self._folder(split, name) for name in classes])

    def _folder(self, split: str, name: str) -> str:
        """Return the folder of a class of a split."""
        return "/".join(filter(None, (split if len(self.splits) > 1 else "", name)))

    @override
    def write(self, shard: Shard, folder: Path, tick: Tick) -> Files:
        files = {}
        for number, sample in self.samples(shard, tick):
            name = with_ending(shard.paths[number], sample.ending)
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(sample.image)
            files[name] = len(sample.image)
        for name in files:  # after all are written: the first sync also writes the others
            with open(folder / name, "r+b") as file:
                os.fsync(file.fileno())
        return files

    @override
    def finish(self, folder: Path, shards: Sequence[Shard], written: Sequence[Files]) -> None:
        for name in self.folders():
            (folder / name).mkdir(parents=True, exist_ok=True)
        files = (
            (shard.split, position, path)
            for shard, paths in zip(shards, written, strict=True)
            for position, path in zip(shard.positions.tolist(), paths, strict=True)
        )
        for name, data in self.besides(files).items():
            durable.write_file(folder / name, data)
        for parent, _, _ in os.walk(folder):
            durable.sync_directory(Path(parent))

    def folders(self) -> list[str]:
        """List the directories of all classes, also of empty ones: ImageFolder numbers the directories."""
        return [
            self._folder(split, name) for split, known in self._has_classes.items() if known for name in self._classes
        ]

    def besides(self, files: Iterable[tuple[str, int, str]]) -> dict[str, bytes]:
        """Return the files beside the images, given each image's split, position and path."""
        found = {}
        if self.content.classes:
            found[CLASSES_NAME] = json_line(list(self.content.classes), indent=0)
        if self.content.label_field is not None and not all(self._has_classes.values()):
            table = io.StringIO()
            rows = csv.writer(table, lineterminator="\n")
            rows.writerow(["file_name", "label"])
            rows.writerows((path, self.content.label(at)) for split, at, path in files if not self._has_classes[split])
            found[TABLE_NAME] = table.getvalue().encode()
        return found


def with_ending(path: str, ending: str) -> str:
    """Append an image's suffix to a path without one."""
    return path if split_ending(path.rpartition("/")[2])[1] else f"{path}{ending}"


def split_ending(name: str) -> tuple[str, str]:
    """Split a name into stem and image suffix; "" if it has no such suffix."""
    stem, dot, rest = name.rpartition(".")
    return (stem, f".{rest}") if stem and _ENDING.fullmatch(f"{dot}{rest}") else (name, "")


def part(text: str) -> str:
    """Return a text as the name of a file or directory: no separators, not hidden, at most 200 bytes."""
    name = as_file_name(printable(text).replace("/", "_").replace("\0", "_"))
    if not name or name.startswith("."):
        name = f"_{name}"
    data = name.encode()
    if len(data) <= _MAX_BYTES:
        return name
    digest = hashlib.sha256(data).hexdigest()[:12]
    return f"{digest}-{data[-_MAX_BYTES + 20 :].decode('utf-8', 'ignore')}"


def unique(names: Iterable[str], folders: Sequence[str], *, whole: bool = False, dots: bool = True) -> list[str]:
    """Choose the name of each record's file in its folder.

    The name is the last part of the record's name. If that is taken, the name is the whole record name with "_" for
    "/"; if that is taken too, a number is appended. Case is ignored, as by the file systems of macOS and Windows.

    Args:
        names: The records' names; without an ending where the image's bytes decide it.
        folders: The folder of each, which "" need not have.
        whole: Keep the folders of the record's own name instead.
        dots: Whether a name may have dots, beside that of its ending.
    """
    taken: dict[str, set[str]] = {}  # the endings of each stem; "" is one that is not known yet, and may be any
    found = []
    for name, folder in zip(names, folders, strict=True):
        stem, ending = split_ending(printable(name))
        parts = [piece for piece in stem.split("/") if piece] or ["_"]
        if not dots:
            parts[-1] = parts[-1].replace(".", "_")
        plain = "/".join(map(part, parts)) if whole else part(parts[-1])
        for chosen in _numbered(plain, part("_".join(parts))):
            endings = taken.setdefault(f"{folder}/{chosen}".casefold(), set())
            if not endings or (ending and endings.isdisjoint(("", ending.casefold()))):
                endings.add(ending.casefold())
                break
        found.append("/".join(filter(None, (folder, f"{chosen}{ending}"))))
    return found


def class_folders(classes: Sequence[str]) -> list[str]:
    """Choose the directory of each class; two classes of one name get two."""
    found: dict[str, str] = {}
    for name in classes:
        chosen = next(each for each in _numbered(part(name)) if each.casefold() not in found)
        found[chosen.casefold()] = chosen
    return list(found.values())


def _numbered(*names: str) -> Iterator[str]:
    """Yield names, and then the last one with numbers behind it."""
    yield from names
    yield from (f"{names[-1]}-{number}" for number in itertools.count(2))
