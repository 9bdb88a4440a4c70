"""How ObjectNet becomes records: class folders, and mappings to the authors' names and to the labels of ImageNet."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from typing_extensions import override

from recordzoo.base.text import quote
from recordzoo.errors import SourceError
from recordzoo.raw.member import Source
from recordzoo.recipes.declared import ListedRecipe, Lists, class_labels, name_key
from recordzoo.recipes.recipe import Table

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
        if getattr(source, "archives", ()):
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


RECIPES = {"objectnet": ObjectNet}
