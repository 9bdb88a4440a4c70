"""How a folder of COCO's images becomes records, with the annotation files that name it."""

from collections.abc import Sequence

from typing_extensions import override

from recordzoo.recipes.annotated import AnnotatedRecipe


class Coco(AnnotatedRecipe):
    """The images of a part ("val2017"), and `annotations/*_val2017.json`; of test images also those of test-dev."""

    @property
    @override
    def folder(self) -> str:
        return f"{self.part}/"

    @property
    @override
    def annotations(self) -> Sequence[str]:
        return [f"annotations/*_{name}.json" for name in (self.part, self.part.replace("test", "test-dev"))]


RECIPES = {"coco": Coco}
