"""How DeepWeeds, DomainNet and ObjectNet become records: class folders, and lists of splits or labels beside them."""

import csv
import dataclasses
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from typing_extensions import override

from recordzoo.base.text import quote, text_of
from recordzoo.errors import SourceError
from recordzoo.raw.member import Member, Source
from recordzoo.recipes.declared import Files, ListedRecipe, Lists, class_labels, integer, name_key, names_by_label
from recordzoo.recipes.recipe import Blob, Sidecar, Table

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
        for row in _rows(lists, "labels.csv"):
            label = integer(row["Label"], "deep_weeds: labels.csv", len(label_of) + 2)
            label_of[row["Filename"]], species_of[label] = label, row["Species"]
        names = sorted(label_of, key=name_key)
        folds = {
            split: [row["Filename"] for row in _rows(lists, name)] for name, split in _FOLD.items() if name in lists
        }
        return Table(
            names=names,
            arrays={"target": np.array([label_of[name] for name in names], np.int64)},
            splits={"all": list(label_of), **folds},
            classes=names_by_label(species_of),
        )


def _rows(lists: Lists, name: str) -> Iterator[dict[str, str]]:
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
        names = sorted(label_of, key=name_key)
        class_of = {label: name.partition("/")[0] for name, label in label_of.items()}
        return Table(
            names=names,
            arrays={"target": np.array([label_of[name] for name in names], np.int64)},
            splits=splits,
            classes=names_by_label(class_of),
        )


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
