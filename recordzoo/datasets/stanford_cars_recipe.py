"""How Stanford Cars becomes records: the photographs of a split, with the labels of its MATLAB file."""

from collections.abc import Mapping, Sequence

import numpy as np
from typing_extensions import override

from recordzoo.recipes.declared import Files, ListedRecipe, Lists
from recordzoo.recipes.recipe import Table

ANNOTATIONS = {"train": "devkit/cars_train_annos.mat", "test": "cars_test_annos_withlabels.mat"}
META = "devkit/cars_meta.mat"


class StanfordCars(ListedRecipe):
    """The annotated photographs, sorted by name; the split has the order of the annotations."""

    @property
    @override
    def lists(self) -> Sequence[str]:
        return (ANNOTATIONS[self.part], META)

    @property
    @override
    def files(self) -> Mapping[str, Files]:
        return {"image": (f"cars_{self.part}/", (".jpg",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        rows = np.atleast_1d(lists.mat(ANNOTATIONS[self.part])["annotations"])
        label_of = {str(row["fname"]): int(row["class"]) - 1 for row in rows}  # classes are counted from 1
        names = sorted(label_of)
        return Table(
            names=names,
            arrays={"target": np.array([label_of[name] for name in names], np.int64)},
            splits={self.part: [str(row["fname"]) for row in rows]},
            classes=np.atleast_1d(lists.mat(META)["class_names"]).tolist(),
        )


RECIPES = {"stanford_cars": StanfordCars}
