"""How NABirds, Online Products, Stanford Dogs and Tiny ImageNet become records: photographs with several targets."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.recipes.declared import ListedRecipe, Lists, Row, name_key, names_by_label
from recordzoo.recipes.recipe import NO_TARGET, Table
from recordzoo.records.manifest import FieldKind, FieldSpec

_NABIRDS = "nabirds/"


class NABirds(ListedRecipe):
    """The listed photographs, sorted by path. A label is the place of the class's number among those with photographs.

    Numbers of images are UUIDs. A class is named like its folder: "0295".
    """

    lists = tuple(
        f"{_NABIRDS}{name}.txt"
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
    files = {"image": (f"{_NABIRDS}images/", (".jpg",))}

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
    return lists.rows(f"{_NABIRDS}{name}.txt", columns=2, cuts=1)


# Any: of any numeric dtype.
def _boxes_and_parts(images: Sequence[str], lists: Lists) -> dict[str, NDArray[Any]]:
    """Return "bbox", float32 [N, 4], and "parts", float32 [N, parts, 3]; zeros where a list has no line."""
    place_of = {image: place for place, image in enumerate(images)}
    bbox = np.zeros((len(images), 4), np.float32)
    for row in lists.rows(f"{_NABIRDS}bounding_boxes.txt", columns=5):
        bbox[place_of[row[0]]] = row.floats(1)
    column_of = {part: column for column, part in enumerate(_pairs(lists, "parts/parts"))}
    parts = np.zeros((len(images), len(column_of), 3), np.float32)
    for row in lists.rows(f"{_NABIRDS}parts/part_locs.txt", columns=5):
        parts[place_of[row[0]], column_of[row[1]]] = row.floats(2)
    return {"bbox": bbox, "parts": parts}


_PRODUCTS = "Stanford_Online_Products/"


class OnlineProducts(ListedRecipe):
    """The listed photographs, sorted by path; the splits have the order of their lists.

    Labels are the authors' numbers, less 1: of the product in "target", of its kind in "super_category".
    """

    lists = tuple(f"{_PRODUCTS}Ebay_{split}.txt" for split in ("train", "test"))
    files = {"image": (_PRODUCTS, (".jpg",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        splits: dict[str, list[str]] = {}
        labels_of: dict[str, tuple[int, int]] = {}
        for split in ("train", "test"):
            # The first line names the columns.
            rows = lists.rows(f"{_PRODUCTS}Ebay_{split}.txt", columns=4)[1:]
            splits[split] = [row[3] for row in rows]
            labels_of.update({row[3]: (row.integer(1) - 1, row.integer(2) - 1) for row in rows})
        names = sorted(labels_of, key=name_key)
        labels = np.array([labels_of[name] for name in names], np.int64).reshape(-1, 2)
        kinds = {kind: name.partition("/")[0].removesuffix("_final") for name, (_, kind) in labels_of.items()}
        return Table(
            names=names,
            arrays={"target": labels[:, 0], "super_category": labels[:, 1]},
            splits=splits,
            classes=[str(number) for number in range(1, int(labels[:, 0].max(initial=-1)) + 2)],
            fields={"super_category": FieldSpec(FieldKind.CLASS, tuple(names_by_label(kinds)))},
        )


class StanfordDogs(ListedRecipe):
    """All photographs, sorted by path; the splits have the order of their lists. Labels are those of the lists, less 1.

    Annotation files have the names of the images without an ending, and none of their own.
    """

    lists = tuple(f"{split}_list.mat" for split in ("train", "test"))
    files = {"image": ("Images/", (".jpg",)), "annotation": ("Annotation/", ("",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        splits: dict[str, list[str]] = {}
        label_of: dict[str, int] = {}
        for split, list_name in zip(("train", "test"), self.lists, strict=True):
            if list_name not in lists:
                continue
            listed = lists.mat(list_name)
            splits[split] = [str(name) for name in np.atleast_1d(listed["file_list"])]
            label_of.update(zip(splits[split], (np.atleast_1d(listed["labels"]).astype(int) - 1).tolist(), strict=True))
        folder_of = {label: name.partition("/")[0] for name, label in label_of.items()}
        names = sorted({*keys["image"], *label_of}, key=name_key)
        return Table(
            names=names,
            arrays={"target": np.array([label_of.get(name, NO_TARGET) for name in names], np.int64)},
            splits=splits,
            classes=names_by_label(folder_of),
        )


_TINY = "tiny-imagenet-200/"
_TINY_VAL = f"{_TINY}val/val_annotations.txt"


class TinyImageNet(ListedRecipe):
    """All images, sorted by path. Labels are places among the sorted WNIDs; images of "test" have -1 and no box."""

    lists = (f"{_TINY}wnids.txt", f"{_TINY}words.txt", f"{_TINY}train/*/*_boxes.txt", _TINY_VAL)
    files = {"image": (_TINY, (".jpeg",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        wnids = sorted(lists.lines(f"{_TINY}wnids.txt"))
        label_of = {wnid: label for label, wnid in enumerate(wnids)}
        found: dict[str, tuple[int, list[float]]] = {}
        for row in lists.rows(_TINY_VAL, columns=6):
            found[f"val/images/{row[0]}"] = label_of[row[1]], row.floats(2)
        for wnid, label in label_of.items():
            for row in lists.rows(f"{_TINY}train/{wnid}/{wnid}_boxes.txt", columns=5):
                found[f"train/{wnid}/images/{row[0]}"] = label, row.floats(1)
        names = sorted({*keys["image"], *found}, key=name_key)
        unknown = (NO_TARGET, [float("nan")] * 4)
        words = dict(lists.rows(f"{_TINY}words.txt", "\t", columns=2, cuts=1))
        return Table(
            names=names,
            arrays={
                "target": np.array([found.get(name, unknown)[0] for name in names], np.int64),
                "bbox": np.array([found.get(name, unknown)[1] for name in names], np.float32).reshape(-1, 4),
            },
            splits={
                split: [name for name in names if name.startswith(f"{split}/")] for split in ("train", "val", "test")
            },
            classes=wnids,
            fields={"bbox": FieldSpec(FieldKind.BOXES)},
            metadata={"class_names": [words.get(wnid, wnid) for wnid in wnids]},
        )
