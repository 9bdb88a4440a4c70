"""How Omniglot becomes records: folders ``<alphabet>/<character>``."""

from collections.abc import Iterator, Mapping

import numpy as np
from typing_extensions import override

from recordzoo.raw.member import Member
from recordzoo.recipes.declared import ClassFolderRecipe
from recordzoo.recipes.recipe import Blob, Sidecar, Stored, Table


class Omniglot(ClassFolderRecipe):
    """Drawn characters; a class is a character of an alphabet."""

    endings = (".png",)

    @property
    @override
    def top(self) -> str:
        return f"images_{self.part}/"

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        # torchvision reads only the folders of characters, and only this spelling of the suffix.
        if member.name.removeprefix(self.top).count("/") == 2 and member.name.endswith(self.endings):
            yield from super().extract(member)

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        table = super().build_table(stored, sidecars)
        folders = [name.rpartition("/")[0] for name in table.names]
        classes = sorted(set(folders), key=lambda folder: folder.split("/"))
        label_of = {folder: label for label, folder in enumerate(classes)}
        target = np.array([label_of[folder] for folder in folders], np.int64)
        return Table(table.names, arrays={"target": target}, classes=classes)


RECIPES = {"omniglot": Omniglot}
