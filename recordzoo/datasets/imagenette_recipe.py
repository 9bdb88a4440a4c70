"""How Imagenette becomes records: class folders below those of the splits."""

from typing_extensions import override

from recordzoo.recipes.class_folders import ClassFolderRecipe


class Imagenette(ClassFolderRecipe):
    """A part for each size of the images; class folders are named by their WNIDs."""

    folders = ("train", "val")
    endings = (".jpeg",)

    @property
    @override
    def top(self) -> str:
        return self.raw_files[0].name.removesuffix(".tgz") + "/"


RECIPES = {"imagenette": Imagenette}
