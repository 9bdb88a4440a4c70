"""How the Semantic Boundaries Dataset becomes records: images, and the .mat file of each as it is."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from typing_extensions import override

from recordzoo.raw.member import Member
from recordzoo.recipes.declared import ListedRecipe, Lists
from recordzoo.recipes.recipe import Blob, Sidecar, Table, present

UNPACKED = "benchmark_RELEASE/dataset/"
"""The archive's folder; torchvision moves its contents to the root."""


class SBD(ListedRecipe):
    """All images, existing or only listed, by name; the part "train-noval" also needs its list."""

    files = MappingProxyType({"image": ("img/", (".jpg",)), "mask": ("cls/", (".mat",))})
    encodings = MappingProxyType({"mask": "bytes"})

    @property
    @override
    def lists(self) -> Sequence[str]:
        return ["train.txt", "val.txt", *(["train_noval.txt"] if self.part == "train-noval" else [])]

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        names = super().tree_names(base)
        return names if self.part == "all" or "train_noval.txt" in (names or ()) else None

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        return super().extract(dataclasses.replace(member, name=member.name.removeprefix(UNPACKED)))

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        splits = {
            split_name(name.removesuffix(".txt")): [f"{line}.jpg" for line in lists.lines(name)]
            for name in self.lists
            if name in lists
        }
        names = sorted({*keys["image"], *(name for split in splits.values() for name in split)})
        mask_of = [name.removesuffix(".jpg") + ".mat" for name in names]
        return Table(
            names=names,
            keys={
                "image": present(names, keys["image"]),
                "mask": present(mask_of, keys["mask"]),
            },
            splits=splits,
            default_target="mask",
        )


def split_name(image_set: str) -> str:
    """Return the split of an image set."""
    return image_set.replace("_", "-")


RECIPES = {"sbd": SBD}
