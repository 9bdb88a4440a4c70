"""How ADE20K becomes records: photographs and masks in a folder for each split, and a list of the classes."""

from collections.abc import Mapping, Sequence

from typing_extensions import override

from recordzoo.recipes.declared import ListedRecipe, Lists
from recordzoo.recipes.recipe import Table, present
from recordzoo.records.kinds import FieldKind, FieldSpec

TOP = "ADEChallengeData2016"
FOLDERS = {"train": "training", "val": "validation"}

_CLASSES = f"{TOP}/objectInfo150.txt"


class ADE20K(ListedRecipe):
    """All photographs, sorted by name. A tree may lack the list of classes."""

    needs_lists = False
    lists = (_CLASSES,)
    files = {"image": (f"{TOP}/images/", (".jpg",)), "mask": (f"{TOP}/annotations/", (".png",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        names = sorted(keys["image"])
        rows = lists.rows(_CLASSES, "\t", columns=5)[1:] if _CLASSES in lists else []
        return Table(
            names=names,
            keys={"mask": present([name.removesuffix(".jpg") + ".png" for name in names], keys["mask"])},
            splits={
                split: [name for name in names if name.startswith(f"{folder}/")] for split, folder in FOLDERS.items()
            },
            fields={"mask": FieldSpec(FieldKind.MASKS)},
            default_target="mask",
            metadata={"classes": [row[4].strip() for row in rows]},
        )


RECIPES = {"ade20k": ADE20K}
