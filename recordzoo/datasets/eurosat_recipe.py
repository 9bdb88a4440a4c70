"""How EuroSAT becomes records: one folder for each class."""

from recordzoo.recipes.class_folders import ClassFolderRecipe


class EuroSAT(ClassFolderRecipe):
    """Satellite images of 64 by 64 pixels."""

    top = "2750/"


RECIPES = {"eurosat": EuroSAT}
