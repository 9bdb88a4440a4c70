"""How Rendered SST2 becomes records: class folders below those of the splits."""

import dataclasses
from collections.abc import Mapping

from typing_extensions import override

from recordzoo.recipes.base import Stored, Table
from recordzoo.recipes.class_folders import ClassFolderRecipe


class RenderedSST2(ClassFolderRecipe):
    """Pictures of sentences; the folder of the split "val" is ``valid``."""

    top = "rendered-sst2/"
    folders = ("train", "valid", "test")
    endings = ("png",)  # without a dot, as torchvision has it

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        table = super().build_table(stored, sidecars)
        splits = {"val" if folder == "valid" else folder: names for folder, names in table.splits.items()}
        return dataclasses.replace(table, splits=splits)


RECIPES = {"rendered_sst2": RenderedSST2}
