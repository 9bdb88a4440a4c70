"""How Food-101 becomes records: a JSON file for each split names the images of each class."""

import json
from collections.abc import Mapping, Sequence

from typing_extensions import override

from recordzoo.recipes.declared import ListedRecipe, Lists, class_folder_order, class_labels
from recordzoo.recipes.recipe import Table


class Food101(ListedRecipe):
    """Names are ``class/number.jpg``; a split has the order of its file."""

    lists = ("food-101/meta/train.json", "food-101/meta/test.json")
    files = {"image": ("food-101/images/", (".jpg",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        splits = {
            name.rpartition("/")[2].removesuffix(".json"): [
                f"{stem}.jpg" for stems in json.loads(data).values() for stem in stems
            ]
            for name, data in lists.contents.items()
        }
        listed = list({*keys["image"], *(name for split in splits.values() for name in split)})
        names = [listed[place] for place in class_folder_order(listed).tolist()]
        classes, target = class_labels(names)
        return Table(names=names, arrays={"target": target}, splits=splits, classes=classes)


RECIPES = {"food101": Food101}
