"""How Oxford-IIIT Pets becomes records: photographs with trimaps, and lists of breed and species."""

from collections.abc import Mapping, Sequence

import numpy as np
from typing_extensions import override

from recordzoo.recipes.declared import ListedRecipe, Lists
from recordzoo.recipes.recipe import Table, present
from recordzoo.records.kinds import FieldKind, FieldSpec

SPLITS = ("trainval", "test")


class OxfordPets(ListedRecipe):
    """All photographs, sorted by name. Those in no list have the labels -1."""

    lists = tuple(f"annotations/{split}.txt" for split in SPLITS)
    files = {"image": ("images/", (".jpg",)), "mask": ("annotations/trimaps/", (".png",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        list_of = dict(zip(SPLITS, self.lists, strict=True))
        rows = {split: lists.rows(name, columns=4) for split, name in list_of.items() if name in lists}
        splits = {split: [f"{row[0]}.jpg" for row in listed] for split, listed in rows.items()}
        names = sorted({*keys["image"], *(name for split in splits.values() for name in split)})
        labels = {f"{row[0]}.jpg": (row.integer(1) - 1, row.integer(2) - 1) for split in rows.values() for row in split}
        pairs = np.array([labels.get(name, (-1, -1)) for name in names], np.int64).reshape(-1, 2)
        mask_of = [name.replace(".jpg", ".png") for name in names]
        return Table(
            names=names,
            keys={"mask": present(mask_of, keys["mask"])},
            arrays={"target": pairs[:, 0], "species": pairs[:, 1]},
            splits=splits,
            fields={
                "target": FieldSpec(FieldKind.CLASS),
                "mask": FieldSpec(FieldKind.MASKS),
                "species": FieldSpec(FieldKind.CLASS, ("Cat", "Dog")),
            },
        )


RECIPES = {"oxford_pets": OxfordPets}
