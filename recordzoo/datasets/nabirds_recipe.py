"""How NABirds becomes records: photographs with boxes and parts, in classes with sparse numbers of a hierarchy."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.recipes.declared import ListedRecipe, Lists, Row, name_key
from recordzoo.recipes.recipe import Table
from recordzoo.records.kinds import FieldKind, FieldSpec

TOP = "nabirds/"


class NABirds(ListedRecipe):
    """The listed photographs, sorted by path. A label is the place of the class's number among those with photographs.

    Numbers of images are UUIDs. A class is named like its folder: "0295".
    """

    lists = tuple(
        f"{TOP}{name}.txt"
        for name in (
            "images",
            "image_class_labels",
            "train_test_split",
            "bounding_boxes",
            "classes",
            "hierarchy",
            "parts/parts",
            "parts/part_locs",
        )
    )
    files = {"image": (f"{TOP}images/", (".jpg",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        name_of = _pairs(lists, "images")
        images = sorted(name_of, key=lambda image: name_key(name_of[image]))
        names = [name_of[image] for image in images]
        is_train = _pairs(lists, "train_test_split")
        label_of = {row[0]: row.integer(1) for row in _rows(lists, "image_class_labels")}
        classes, target = np.unique(np.array([label_of[image] for image in images], np.int64), return_inverse=True)
        train = np.array([is_train[image] == "1" for image in images], bool)
        nodes = {row.integer(0): row[1] for row in _rows(lists, "classes")}
        return Table(
            names=names,
            arrays={"target": target.astype(np.int64), **_boxes_and_parts(images, lists)},
            splits={"train": np.flatnonzero(train), "test": np.flatnonzero(~train)},
            classes=[f"{number:04d}" for number in classes.tolist()],
            fields={"bbox": FieldSpec(FieldKind.BOXES)},
            metadata={
                "class_names": [nodes[number] for number in classes.tolist()],
                "part_names": list(_pairs(lists, "parts/parts").values()),
                "nodes": [[number, name] for number, name in nodes.items()],
                "parents": [[row.integer(0), row.integer(1)] for row in _rows(lists, "hierarchy")],
            },
        )


def _pairs(lists: Lists, name: str) -> dict[str, str]:
    """Read a list of numbers, each with a text."""
    return dict(_rows(lists, name))


def _rows(lists: Lists, name: str) -> list[Row]:
    return lists.rows(f"{TOP}{name}.txt", columns=2, cuts=1)


# Any: of any numeric dtype.
def _boxes_and_parts(images: Sequence[str], lists: Lists) -> dict[str, NDArray[Any]]:
    """Return "bbox", float32 [N, 4], and "parts", float32 [N, parts, 3]; zeros where a list has no line."""
    place_of = {image: place for place, image in enumerate(images)}
    bbox = np.zeros((len(images), 4), np.float32)
    for row in lists.rows(f"{TOP}bounding_boxes.txt", columns=5):
        bbox[place_of[row[0]]] = row.floats(1)
    column_of = {part: column for column, part in enumerate(_pairs(lists, "parts/parts"))}
    parts = np.zeros((len(images), len(column_of), 3), np.float32)
    for row in lists.rows(f"{TOP}parts/part_locs.txt", columns=5):
        parts[place_of[row[0]], column_of[row[1]]] = row.floats(2)
    return {"bbox": bbox, "parts": parts}


RECIPES = {"nabirds": NABirds}
