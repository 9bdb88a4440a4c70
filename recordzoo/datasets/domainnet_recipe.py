"""How DomainNet becomes records: images in class folders, and two lists for each domain."""

from collections.abc import Mapping, Sequence

import numpy as np
from typing_extensions import override

from recordzoo.recipes.declared import Files, ListedRecipe, Lists, name_key, names_by_label
from recordzoo.recipes.recipe import Table


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


RECIPES = {"domainnet": DomainNet}
