"""How CUB-200 of 2010 becomes records: photographs with MATLAB annotations, and lists of the splits."""

from collections.abc import Mapping, Sequence

from typing_extensions import override

from recordzoo.recipes.declared import ListedRecipe, Lists, class_labels, name_key
from recordzoo.recipes.recipe import Table, present

SPLITS = ("train", "test")


class CUB200Of2010(ListedRecipe):
    """All photographs, sorted by path; the splits have the order of their lists."""

    lists = tuple(f"lists/{split}.txt" for split in SPLITS)
    files = {"image": ("images/", (".jpg",)), "annotation": ("annotations-mat/", (".mat",))}
    encodings = {"annotation": "bytes"}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        splits = {split: lists.lines(name) for split, name in zip(SPLITS, self.lists, strict=True) if name in lists}
        names = sorted({*keys["image"], *(name for listed in splits.values() for name in listed)}, key=name_key)
        classes, target = class_labels(names)
        annotation_of = [f"{name.removesuffix('.jpg')}.mat" for name in names]
        return Table(
            names=names,
            keys={"annotation": present(annotation_of, keys["annotation"])},
            arrays={"target": target},
            splits=splits,
            classes=classes,
        )


RECIPES = {"cub200_2010": CUB200Of2010}
