"""How Country211 becomes records: class folders below those of the splits."""

from recordzoo.recipes.class_folders import ClassFolderRecipe


class Country211(ClassFolderRecipe):
    """Photographs; class folders are named by the ISO codes of countries."""

    top = "country211/"
    folders = ("train", "valid", "test")


RECIPES = {"country211": Country211}
