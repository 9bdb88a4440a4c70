"""How Stanford Dogs becomes records: photographs with annotations, and MATLAB lists of split and breed."""

from collections.abc import Mapping, Sequence

import numpy as np
from typing_extensions import override

from recordzoo.recipes.declared import ListedRecipe, Lists, name_key, names_by_label
from recordzoo.recipes.recipe import NO_TARGET, Table, present

SPLITS = ("train", "test")


class StanfordDogs(ListedRecipe):
    """All photographs, sorted by path; the splits have the order of their lists. Labels are those of the lists, less 1.

    Annotation files have the names of the images without an ending, and none of their own.
    """

    lists = tuple(f"{split}_list.mat" for split in SPLITS)
    files = {"image": ("Images/", (".jpg",)), "annotation": ("Annotation/", ("",))}
    encodings = {"annotation": "bytes"}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        splits: dict[str, list[str]] = {}
        label_of: dict[str, int] = {}
        for split, list_name in zip(SPLITS, self.lists, strict=True):
            if list_name not in lists:
                continue
            listed = lists.mat(list_name)
            splits[split] = [str(name) for name in np.atleast_1d(listed["file_list"])]
            label_of.update(zip(splits[split], (np.atleast_1d(listed["labels"]).astype(int) - 1).tolist(), strict=True))
        folder_of = {label: name.partition("/")[0] for name, label in label_of.items()}
        names = sorted({*keys["image"], *label_of}, key=name_key)
        annotation_of = [name.removesuffix(".jpg") for name in names]
        return Table(
            names=names,
            keys={"annotation": present(annotation_of, keys["annotation"])},
            arrays={"target": np.array([label_of.get(name, NO_TARGET) for name in names], np.int64)},
            splits=splits,
            classes=names_by_label(folder_of),
        )


RECIPES = {"stanford_dogs": StanfordDogs}
