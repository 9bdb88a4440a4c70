"""A tree of class folders, as torchvision's ImageFolder reads it; without classes, files and a table of labels."""

import csv
import io
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo import durable
from recordzoo.exporting.names import class_folders, split_ending, unique
from recordzoo.exporting.samples import Content
from recordzoo.exporting.target import Shard, Target, Tick, Written, json_line
from recordzoo.formats.base import CLASSES_NAME

TABLE_NAME = "labels.csv"


class Folder(Target):
    """See `Target`: ``split/class/name``. A shard is some of the files; it is only a piece of the work."""

    name = "folder"
    shard_bytes = 64 << 20

    def __init__(self, content: Content, splits: Sequence[str]) -> None:
        super().__init__(content, splits)
        self.tree = Tree(content, self.split_folder)

    @override
    def paths(self, split: str, positions: NDArray[np.int64]) -> list[str]:
        return self.tree.paths(split, positions)

    @override
    def write(self, shard: Shard, folder: Path, tick: Tick) -> Written:
        files = {}
        for number, sample in self.samples(shard, tick):
            name = with_ending(shard.paths[number], sample.ending)
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(sample.image)
            files[name] = len(sample.image)
        for name in files:  # after all are written: the first sync of a journal takes the others along
            with open(folder / name, "r+b") as file:
                os.fsync(file.fileno())
        return Written(files)

    @override
    def finish(self, folder: Path, shards: Sequence[Shard], written: Sequence[Written]) -> None:
        for name in self.tree.folders():
            (folder / name).mkdir(parents=True, exist_ok=True)
        files = (
            (shard.split, position, path)
            for shard, each in zip(shards, written, strict=True)
            for position, path in zip(shard.positions.tolist(), each.files, strict=True)
        )
        for name, data in self.tree.besides(files).items():
            durable.write_file(folder / name, data)
        for parent, _, _ in os.walk(folder):
            durable.sync_directory(Path(parent))


class Tree:
    """Where each file of a tree goes. A split without classes, or with labels that are of none, has no class folders.

    Args:
        content: The samples.
        split_folder: Gives the folder of a split.
    """

    def __init__(self, content: Content, split_folder: Callable[[str], str]) -> None:
        self.content, self._split_folder = content, split_folder
        self._folders = class_folders(content.classes)
        self._has_classes: dict[str, bool] = {}

    def paths(self, split: str, positions: NDArray[np.int64]) -> list[str]:
        """Return the path of each file of a split; without an ending where the image's bytes decide it."""
        names = [self.content.reader.names[position] for position in positions.tolist()]
        if self.content.is_raw:
            names = [split_ending(name)[0] for name in names]
        field = self.content.label_field
        labels = np.full(len(names), -1) if field is None else self.content.reader.array(field)[positions]
        known = bool(len(labels) and labels.min() >= 0 and labels.max() < len(self._folders))
        self._has_classes[split] = known
        classes = [self._folders[label] for label in labels.tolist()] if known else [""] * len(names)
        folder = self._split_folder(split)
        return unique(names, ["/".join(filter(None, (folder, name))) for name in classes])

    def folders(self) -> list[str]:
        """List the directories of all classes, also of those without images: ImageFolder numbers what is there."""
        splits = [self._split_folder(split) for split, known in self._has_classes.items() if known]
        return ["/".join(filter(None, (split, name))) for split in splits for name in self._folders]

    def besides(self, files: Iterable[tuple[str, int, str]]) -> dict[str, bytes]:
        """Make the files beside the images.

        Args:
            files: Of each image its split, its position and its path.
        """
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
    """Return a path with an image's ending, if it has none."""
    return path if split_ending(path.rpartition("/")[2])[1] else f"{path}{ending}"
