"""How DeepWeeds, DomainNet, NABirds, ... become records: class folders, and lists of splits or targets beside them."""

import csv
import dataclasses
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.base.text import quote, text_of
from recordzoo.errors import SourceError
from recordzoo.raw.member import Member, Source
from recordzoo.recipes.declared import (
    Files,
    ListedRecipe,
    Lists,
    Row,
    class_labels,
    integer,
    labelled_table,
    name_key,
    names_by_label,
)
from recordzoo.recipes.recipe import NO_TARGET, Blob, Sidecar, Table
from recordzoo.records.manifest import FieldKind, FieldSpec

FOLDER = "images/"
FOLDS = 5
SPLITS = ("train", "val", "test")
_FOLD = {f"{split}_subset{fold}.csv": f"{split}{fold}" for fold in range(FOLDS) for split in SPLITS}


class DeepWeeds(ListedRecipe):
    """The images of labels.csv, sorted by name. "all" has the order of that list, "train0" and so on that of their own.

    The tree has the images in `FOLDER`, where the authors' script extracts the zip.
    """

    lists = ("labels.csv", *_FOLD)
    files = {"image": (FOLDER, (".jpg",))}

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        if "/" not in member.name and member.name.endswith(".jpg"):
            member = dataclasses.replace(member, name=FOLDER + member.name)
        yield from super().extract(member)

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        label_of: dict[str, int] = {}
        species_of: dict[int, str] = {}
        for row in _csv_rows(lists, "labels.csv"):
            label = integer(row["Label"], "deep_weeds: labels.csv", len(label_of) + 2)
            label_of[row["Filename"]], species_of[label] = label, row["Species"]
        folds = {
            split: [row["Filename"] for row in _csv_rows(lists, name)] for name, split in _FOLD.items() if name in lists
        }
        return labelled_table(label_of, {"all": list(label_of), **folds}, names_by_label(species_of))


def _csv_rows(lists: Lists, name: str) -> Iterator[dict[str, str]]:
    return iter(csv.DictReader(io.StringIO(text_of(lists[name], f"deep_weeds: {name}"))))


class DomainNet(ListedRecipe):
    """The listed images of a domain, sorted by path; the splits have the order of their lists.

    A label is the number in the lists. In each list of paintings one class has no images.
    """

    @property
    @override
    def lists(self) -> Sequence[str]:
        return [f"{self.part}_{split}.txt" for split in ("train", "test")]

    @property
    @override
    def files(self) -> Mapping[str, Files]:
        return {"image": (f"{self.part}/", (".jpg", ".png"))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        splits: dict[str, list[str]] = {}
        label_of: dict[str, int] = {}
        for name, split in zip(self.lists, ("train", "test"), strict=True):
            rows = [(row[0].removeprefix(f"{self.part}/"), row.integer(1)) for row in lists.rows(name, columns=2)]
            splits[split] = [image for image, _ in rows]
            label_of.update(rows)
        class_of = {label: name.partition("/")[0] for name, label in label_of.items()}
        return labelled_table(label_of, splits, names_by_label(class_of))


TOP = "objectnet-1.0/"
MAPPINGS = f"{TOP}mappings/"
PASSWORD = "objectnetisatestset"  # published by the authors, to keep the images out of crawls


class ObjectNet(ListedRecipe):
    """The extracted tree, sorted by path: all images are "test"; those of ImageNet's classes are also "imagenet"."""

    lists = tuple(
        MAPPINGS + name
        for name in (
            "folder_to_objectnet_label.json",
            "objectnet_to_imagenet_1k.json",
            "pytorch_to_imagenet_2012_id.json",
            "imagenet_to_label_2012_v2",
        )
    )
    files = {"image": (f"{TOP}images/", (".png",))}

    @override
    def find(self, root: Path) -> Source | None:
        source = super().find(root)
        if source is not None and source.archives:
            path = self.raw_files[0].path(root)
            raise SourceError(
                f"{path} is encrypted; extract it first: cd {quote(str(path.parent))} && "
                f"UNZIP_DISABLE_ZIPBOMB_DETECTION=TRUE unzip -P {PASSWORD} {path.name}",
                path=str(path),
            )
        return source

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        names = sorted(keys["image"], key=name_key)
        classes, target = class_labels(names)
        name_of: dict[str, str] = json.loads(lists[f"{MAPPINGS}folder_to_objectnet_label.json"])
        if lacking := sorted(name_of.keys() - set(classes)):
            raise SourceError(
                f"ObjectNet: {len(lacking)} of {len(name_of)} folders have no image, the first is {lacking[0]}. "
                "Extracting the zip was interrupted; do it again."
            )
        imagenet = _imagenet_labels(lists)
        labels = [imagenet.get(name_of.get(folder, ""), []) for folder in classes]
        in_imagenet = np.array([bool(each) for each in labels], bool)
        return Table(
            names=names,
            arrays={"target": target},
            splits={"test": np.arange(len(names)), "imagenet": np.flatnonzero(in_imagenet[target])},
            classes=classes,
            metadata={
                "class_names": [name_of.get(folder, folder) for folder in classes],
                "imagenet_labels": [list(each) for each in labels],
            },
        )


def _imagenet_labels(lists: Lists) -> dict[str, list[int]]:
    """Return torchvision's labels of ImageNet for the authors' name of each class that ImageNet has."""
    # {"409": 530}: the label, and the number that the authors give it: its line in the list of names, from 0.
    line_of: dict[str, int] = json.loads(lists[f"{MAPPINGS}pytorch_to_imagenet_2012_id.json"])
    label_of = {line: int(label) for label, line in line_of.items()}
    lines = lists[f"{MAPPINGS}imagenet_to_label_2012_v2"].decode().splitlines()
    label_of_name = {name.strip(): label_of[line] for line, name in enumerate(lines) if line in label_of}
    names_of: dict[str, str] = json.loads(lists[f"{MAPPINGS}objectnet_to_imagenet_1k.json"])
    return {name: [label_of_name[each] for each in found.split("; ")] for name, found in names_of.items()}


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
        return labelled_table(label_of, splits, names_by_label(folder_of), keys["image"])


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
