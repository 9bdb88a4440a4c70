"""How Caltech 101 and 256 become records: class folders whose images are numbered from 1."""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
from typing_extensions import override

from recordzoo.raw.archive import inner_members
from recordzoo.raw.member import Member
from recordzoo.recipes.declared import ListedRecipe, Lists, is_apple_double
from recordzoo.recipes.recipe import Blob, Sidecar, Table, present

BACKGROUND = "BACKGROUND_Google"
"""A folder of Caltech 101 that is no class."""

ANNOTATIONS = {
    "Faces": "Faces_2",
    "Faces_easy": "Faces_3",
    "Motorbikes": "Motorbikes_16",
    "airplanes": "Airplanes_Side_2",
}
"""The folders of contours whose names differ from their class."""


class Caltech256(ListedRecipe):
    """The images of a class are numbered by their count in the folder, as in torchvision.

    Attributes:
        image_name: The name of an image within its class folder.
    """

    files = {"image": ("256_ObjectCategories/", (".jpg",))}
    image_name: ClassVar[str] = "{label:03d}_{number:04d}.jpg"

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        counts = Counter(
            name.partition("/")[0] for name in keys["image"] if name.count("/") == 1 and name.endswith(".jpg")
        )
        if not counts:
            raise self.no_image(self.files["image"][0])
        classes = sorted(counts)
        rows = [(place, number) for place, name in enumerate(classes) for number in range(1, counts[name] + 1)]
        target, numbers = np.array(rows, np.int64).T
        return Table(
            names=[image_name(self.image_name, classes, *row) for row in rows],
            arrays={"target": target, "number": numbers},
            classes=classes,
        )


class Caltech101(Caltech256):
    """Each image has a contour. The archive is a zip of a tar.gz (images) and a tar (contours)."""

    files = {"image": ("101_ObjectCategories/", (".jpg",)), "annotation": ("Annotations/", (".mat",))}
    image_name = "image_{number:04d}.jpg"

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        if is_apple_double(member.name):
            return
        if member.name.endswith((".tar", ".tar.gz")):
            for inner in inner_members(member):
                yield from self.extract(inner)
        elif f"/{BACKGROUND}/" not in member.name:
            yield from super().extract(member)

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        table = super().table(keys, lists)
        numbers = table.arrays["number"].tolist()
        names = [annotation_name(image.partition("/")[0], n) for image, n in zip(table.names, numbers, strict=True)]
        return dataclasses.replace(table, keys={"annotation": present(names, keys["annotation"])})


def image_name(pattern: str, classes: Sequence[str], place: int, number: int) -> str:
    """Name an image by its label (from 0) and its number (from 1): "001.ak47/001_0001.jpg"."""
    return f"{classes[place]}/{pattern.format(label=place + 1, number=number)}"


def annotation_name(category: str, number: int) -> str:
    """Name the file of a contour: "Faces_2/annotation_0001.mat"."""
    return f"{ANNOTATIONS.get(category, category)}/annotation_{number:04d}.mat"
