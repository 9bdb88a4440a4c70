"""How SUN397 becomes records: folders of scenes, one or two deep, below one for each letter."""

from collections.abc import Mapping, Sequence

import numpy as np
from typing_extensions import override

from recordzoo.errors import SourceError
from recordzoo.recipes.declared import ListedRecipe, Lists, name_key
from recordzoo.recipes.recipe import Table

CLASSES = "SUN397/ClassName.txt"


class SUN397(ListedRecipe):
    """The list has the classes in the order of their labels, as "/a/abbey" or "/a/apartment_building/outdoor"."""

    lists = (CLASSES,)
    files = {"image": ("SUN397/", (".jpg",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        classes = [line[3:] for line in lists.lines(CLASSES)]
        label_of = {name: label for label, name in enumerate(classes)}
        names = sorted((key for key in keys["image"] if key.rpartition("/")[2].startswith("sun_")), key=name_key)
        scenes = [name.partition("/")[2].rpartition("/")[0] for name in names]
        if unknown := next((name for name, scene in zip(names, scenes, strict=True) if scene not in label_of), ""):
            raise SourceError(f"{self.dataset}: {unknown} lies in a folder that {CLASSES} does not name as a class.")
        target = np.array([label_of[scene] for scene in scenes], np.int64)
        return Table(names=names, arrays={"target": target}, classes=classes)


RECIPES = {"sun397": SUN397}
