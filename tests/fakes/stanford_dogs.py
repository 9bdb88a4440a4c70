"""Stanford Dogs by code: class folders, annotations without an ending, MATLAB lists with labels from 1."""

import os
from typing import Any
from xml.etree import ElementTree

import numpy as np
import torch
from scipy.io import loadmat
from torchvision.datasets.folder import default_loader
from torchvision.datasets.utils import verify_str_arg

from tests.fakes.fake import Case, Fake, tar
from tests.fakes.matlab import mat
from tests.fakes.mutations import SAMPLES
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.plain import Plain
from tests.fakes.scale import scaled

BREEDS = ("n02085620-Chihuahua", "n02085782-Japanese_spaniel", "n02093256-Staffordshire_bullterrier")


class StanfordDogs(Plain):
    """What people write from the authors' README."""

    _kinds = ("category", "boxes")

    # Any: ImageFolder's own arguments.
    def __init__(
        self,
        root: Any,
        split: str = "train",
        transform: Any = None,
        target_transform: Any = None,
        download: bool = False,
        loader: Any = default_loader,
        target_type: Any = "category",
    ) -> None:
        self.split = verify_str_arg(split, "split", ("train", "test"))
        self._begin(root, transform, target_transform, loader, target_type)
        folder = os.path.join(root, "stanford_dogs")
        with open(os.path.join(folder, f"{split}_list.mat"), "rb") as file:
            listed = loadmat(file)
        names = [str(cell[0][0]) for cell in listed["file_list"]]
        labels = [int(cell[0]) - 1 for cell in listed["labels"]]
        samples = [(os.path.join(folder, "Images", name), label) for name, label in zip(names, labels, strict=True)]
        self._show(samples, sorted(os.listdir(os.path.join(folder, "Images"))))

    def read_target(self, kind: str, path: str) -> torch.Tensor:
        tree = ElementTree.parse(path.replace("Images", "Annotation").removesuffix(".jpg"))
        boxes = [[float(side.text or "") for side in box] for box in tree.iter("bndbox")]
        return torch.tensor(boxes)


def _annotation(rng: np.random.Generator, name: str, num_dogs: int) -> bytes:
    text = f"<annotation>\n\t<filename>{name}</filename>\n\t<size><width>30</width><height>24</height></size>\n"
    for _ in range(num_dogs):
        left, top = (int(value) for value in rng.integers(1, 12, 2))
        text += (
            f"\t<object>\n\t\t<name>Chihuahua</name>\n\t\t<bndbox>\n\t\t\t<xmin>{left}</xmin>\n\t\t\t<ymin>{top}</ymin>\n"
            f"\t\t\t<xmax>{left + 9}</xmax>\n\t\t\t<ymax>{top + 8}</ymax>\n\t\t</bndbox>\n\t</object>\n"
        )
    return f"{text}</annotation>".encode()


def _list(names: list[str]) -> bytes:
    """The variables of the real lists: columns of cells, and labels from 1."""
    column = np.array(names, object).reshape(-1, 1)
    labels = np.array([[BREEDS.index(name.partition("/")[0]) + 1] for name in names], np.float64)
    stems = np.array([name.removesuffix(".jpg") for name in names], object).reshape(-1, 1)
    return mat(file_list=column, annotation_list=stems, labels=labels)


def _build() -> Fake:
    rng = np.random.default_rng(0)
    images, annotations, names = {}, {}, []
    for breed in reversed(BREEDS):
        for number in rng.permutation(9000)[: scaled(5)].tolist():
            stem = f"{breed}/{breed.partition('-')[0]}_{number}"
            image = picture(rng, 30, 24)
            odd = len(names) == 2  # one of the real ones is a PNG with an alpha channel, named .jpg
            images[f"Images/{stem}.jpg"] = encoded(image.convert("RGBA"), "PNG") if odd else jpeg(image)
            annotations[f"Annotation/{stem}"] = _annotation(rng, stem, 1 + len(names) % 3)
            names.append(f"{stem}.jpg")
    train = [name for place, name in enumerate(names) if place % 5 < 3]
    test = [name for place, name in enumerate(names) if place % 5 >= 3]
    lists = {"file_list.mat": _list(names), "test_list.mat": _list(test), "train_list.mat": _list(train)}
    files = {
        "images.tar": tar(images, compress=False),
        "annotation.tar": tar(annotations, compress=False),
        "lists.tar": tar(lists, compress=False),
    }
    arguments = (
        {},
        {"split": "test"},
        {"target_type": "boxes"},
        {"split": "test", "target_type": ["boxes", "category"]},
        {"target_type": ["category"]},
    )
    bad = ({"split": "val"}, {"target_type": "bbox"}, {"target_type": ["category", 1]})
    return Fake("stanford_dogs", files, [Case("StanfordDogsRecord", arguments, bad, SAMPLES, theirs=StanfordDogs)])


FAKES = (_build(),)
