"""How Stanford Online Products becomes records: photographs, and lists of split, product and kind."""

from collections.abc import Mapping, Sequence

import numpy as np
from typing_extensions import override

from recordzoo.recipes.declared import ListedRecipe, Lists, name_key, names_by_label
from recordzoo.recipes.recipe import Table
from recordzoo.records.kinds import FieldKind, FieldSpec

TOP = "Stanford_Online_Products/"
SPLITS = ("train", "test")


class OnlineProducts(ListedRecipe):
    """The listed photographs, sorted by path; the splits have the order of their lists.

    Labels are the authors' numbers, less 1: of the product in "target", of its kind in "super_category".
    """

    lists = tuple(f"{TOP}Ebay_{split}.txt" for split in SPLITS)
    files = {"image": (TOP, (".jpg",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        splits: dict[str, list[str]] = {}
        labels_of: dict[str, tuple[int, int]] = {}
        for split in SPLITS:
            # The first line names the columns.
            rows = lists.rows(f"{TOP}Ebay_{split}.txt", columns=4)[1:]
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


RECIPES = {"online_products": OnlineProducts}
