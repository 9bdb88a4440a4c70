"""A tree of class folders, as torchvision's ImageFolder reads it; without classes, files and a table of labels."""

import csv
from pathlib import Path

from recordzoo.formats.base import CLASSES_NAME, choose, file_name, split_ending
from recordzoo.formats.samples import Content, Export, json_bytes

TABLE_NAME = "labels.csv"


def write_folder(folder: Path, export: Export) -> None:
    """Write ``split/class/name``; one split has no folder of its own.

    A split without classes, or with labels beyond them, has no class folders but rows in `TABLE_NAME`.
    """
    content, taken, rows = export.content, {CLASSES_NAME, TABLE_NAME}, list[tuple[str, int]]()
    classes = [choose(taken, file_name(name)) for name in content.classes]
    for split, positions in export.splits.items():
        top = f"{split}/" if len(export.splits) > 1 else ""
        is_known = content.has_classes(positions)
        for name in classes if is_known else [""]:  # empty ones, too: ImageFolder numbers the directories
            (folder / top / name).mkdir(parents=True, exist_ok=True)
        for sample in export.read(positions):
            start = top if not is_known or sample.label is None else f"{top}{classes[sample.label]}/"
            stem, ending = split_ending(sample.name)
            parts = [file_name(part) for part in stem.split("/") if part] or ["_"]
            ending = sample.ending if content.is_raw or not ending else ending
            name = choose(taken, parts[-1], file_name("_".join(parts)), start=start, end=ending)
            (folder / name).write_bytes(sample.image)
            if sample.label is not None and not is_known:
                rows.append((name, sample.label))
    write_classes(folder, content)
    if rows:
        with open(folder / TABLE_NAME, "w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([("file_name", "label"), *rows])


def write_classes(folder: Path, content: Content) -> None:
    """Write the names of the classes beside the samples, if they are known."""
    if content.classes:
        (folder / CLASSES_NAME).write_bytes(json_bytes(list(content.classes), indent=0))
