"""How Tiny ImageNet becomes records: class folders to train on, one folder each to validate and to test."""

from collections.abc import Mapping, Sequence

import numpy as np
from typing_extensions import override

from recordzoo.recipes.declared import ListedRecipe, Lists, name_key
from recordzoo.recipes.recipe import NO_TARGET, Table
from recordzoo.records.kinds import FieldKind, FieldSpec

TOP = "tiny-imagenet-200/"
VAL = f"{TOP}val/val_annotations.txt"
SPLITS = ("train", "val", "test")


class TinyImageNet(ListedRecipe):
    """All images, sorted by path. Labels are places among the sorted WNIDs; images of "test" have -1 and no box."""

    lists = (f"{TOP}wnids.txt", f"{TOP}words.txt", f"{TOP}train/*/*_boxes.txt", VAL)
    files = {"image": (TOP, (".jpeg",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        wnids = sorted(lists.lines(f"{TOP}wnids.txt"))
        label_of = {wnid: label for label, wnid in enumerate(wnids)}
        found: dict[str, tuple[int, list[float]]] = {}
        for row in lists.rows(VAL, columns=6):
            found[f"val/images/{row[0]}"] = label_of[row[1]], row.floats(2)
        for wnid, label in label_of.items():
            for row in lists.rows(f"{TOP}train/{wnid}/{wnid}_boxes.txt", columns=5):
                found[f"train/{wnid}/images/{row[0]}"] = label, row.floats(1)
        names = sorted({*keys["image"], *found}, key=name_key)
        unknown = (NO_TARGET, [float("nan")] * 4)
        words = dict(lists.rows(f"{TOP}words.txt", "\t", columns=2, cuts=1))
        return Table(
            names=names,
            arrays={
                "target": np.array([found.get(name, unknown)[0] for name in names], np.int64),
                "bbox": np.array([found.get(name, unknown)[1] for name in names], np.float32).reshape(-1, 4),
            },
            splits={split: [name for name in names if name.startswith(f"{split}/")] for split in SPLITS},
            classes=wnids,
            fields={"bbox": FieldSpec(FieldKind.BOXES)},
            metadata={"class_names": [words.get(wnid, wnid) for wnid in wnids]},
        )


RECIPES = {"tiny_imagenet": TinyImageNet}
