"""How KITTI becomes records: images, and the label file of each training image."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from typing_extensions import override

from recordzoo.recipes.declared import Files, ListedRecipe, Lists
from recordzoo.recipes.recipe import Table, present

FOLDERS = {"train": "training", "test": "testing"}


class Kitti(ListedRecipe):
    """The images of a part, sorted by name."""

    lists = ()
    needs_lists = False
    encodings = MappingProxyType({"label": "bytes"})

    @property
    @override
    def files(self) -> Mapping[str, Files]:
        folder = FOLDERS[self.part]
        images: dict[str, Files] = {"image": (f"{folder}/image_2/", (".png",))}
        return images if self.part == "test" else {**images, "label": (f"{folder}/label_2/", (".txt",))}

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        has_all = all((base / folder).is_dir() for folder, _ in self.files.values())
        return super().tree_names(base) if has_all else None

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        names = sorted(keys["image"])
        columns: dict[str, list[str | None]] = {}
        if "label" in keys:
            wanted = [f"{name.partition('.')[0]}.txt" for name in names]
            columns["label"] = present(wanted, keys["label"])
        return Table(names=names, keys=columns, splits={self.part: names})


RECIPES = {"kitti": Kitti}
