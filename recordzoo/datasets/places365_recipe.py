"""How Places365 becomes records: one list for each split, and the images of a split in a size."""

import dataclasses
import io
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from typing_extensions import override

from recordzoo.base.text import text_of
from recordzoo.errors import SourceError
from recordzoo.raw.member import Member
from recordzoo.recipes.declared import Files, ListedRecipe, Lists, class_folder_order, integer
from recordzoo.recipes.recipe import NO_TARGET, Blob, Sidecar, Table

CATEGORIES = "categories_places365.txt"


class Places365(ListedRecipe):
    """A part for each split and size: "train-standard", "train-standard-small", "val", ...

    Names are relative to the folder of the images. Archives of training images have another folder than torchvision
    gives them: "data_256/", which it renames to "data_256_standard/" or "data_256_challenge/".
    """

    @property
    def split(self) -> str:
        """torchvision's name of the split."""
        return self.part.removesuffix("-small")

    @property
    def list_file(self) -> str:
        """The list of the split's images."""
        return f"places365_{self.split.replace('-', '_')}.txt"

    @property
    @override
    def lists(self) -> Sequence[str]:
        return (CATEGORIES, self.list_file)

    @property
    @override
    def files(self) -> Mapping[str, Files]:
        size = "256" if self.part.endswith("-small") else "large"
        kind, _, variant = self.split.partition("-")
        folder = f"data_{size}_{variant}/" if variant else f"{kind}_{size}/"
        return {"image": (folder, (".jpg",))}

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        folder, _ = self.files["image"]
        packed = folder.removesuffix("_standard/").removesuffix("_challenge/").removesuffix("/") + "/"
        if member.name.startswith(packed):
            member = dataclasses.replace(member, name=folder + member.name.removeprefix(packed))
        yield from super().extract(member)

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        listed, labels = [], []
        data, where = lists[self.list_file], f"{self.dataset}: {self.list_file}"
        text_of(data, where)  # refuses what is not UTF-8
        for number, line in enumerate(io.BytesIO(data), 1):  # of 8 million lines
            if row := line.split():
                listed.append(row[0].decode().lstrip("/"))
                labels.append(integer(row[1], where, number) if len(row) > 1 else NO_TARGET)
        order = class_folder_order(listed)
        positions = np.empty_like(order)
        positions[order] = np.arange(len(order))
        return Table(
            names=[listed[place] for place in order.tolist()],
            arrays={"target": np.array(labels, np.int64)[order]},
            splits={self.split: positions},
            classes=_classes(lists),
        )


def _classes(lists: Lists) -> list[str]:
    """Return the names of the classes in the order of their labels."""
    name_of = {row.integer(1): row[0] for row in lists.rows(CATEGORIES, columns=2)}
    if sorted(name_of) != list(range(len(name_of))):
        raise SourceError(f"Places365: the labels in {CATEGORIES} do not count from 0. Download the file again.")
    return [name_of[label] for label in range(len(name_of))]


RECIPES = {"places365": Places365}
