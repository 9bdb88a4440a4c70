"""How MedMNIST becomes records: six arrays in an .npz file, images and labels of three splits."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

import numpy as np
from typing_extensions import override

from recordzoo.recipes.arrays import ArraysRecipe, Chunk, Splits, read_npy
from recordzoo.recipes.recipe import Stored, Table
from recordzoo.records.kinds import FieldKind, FieldSpec

_ORGANS = (
    *("bladder", "femur-left", "femur-right", "heart", "kidney-left", "kidney-right", "liver", "lung-left"),
    *("lung-right", "pancreas", "spleen"),
)
_GRANULOCYTES = "immature granulocytes(myelocytes, metamyelocytes and promyelocytes)"

CLASSES: Mapping[str, tuple[str, ...]] = {
    "pathmnist": (
        *("adipose", "background", "debris", "lymphocytes", "mucus", "smooth muscle", "normal colon mucosa"),
        *("cancer-associated stroma", "colorectal adenocarcinoma epithelium"),
    ),
    "chestmnist": (
        *("atelectasis", "cardiomegaly", "effusion", "infiltration", "mass", "nodule", "pneumonia", "pneumothorax"),
        *("consolidation", "edema", "emphysema", "fibrosis", "pleural", "hernia"),
    ),
    "dermamnist": (
        *("actinic keratoses and intraepithelial carcinoma", "basal cell carcinoma", "benign keratosis-like lesions"),
        *("dermatofibroma", "melanoma", "melanocytic nevi", "vascular lesions"),
    ),
    "octmnist": ("choroidal neovascularization", "diabetic macular edema", "drusen", "normal"),
    "pneumoniamnist": ("normal", "pneumonia"),
    "retinamnist": ("0", "1", "2", "3", "4"),
    "breastmnist": ("malignant", "normal, benign"),
    "bloodmnist": (
        *("basophil", "eosinophil", "erythroblast", _GRANULOCYTES, "lymphocyte", "monocyte", "neutrophil", "platelet"),
    ),
    "tissuemnist": (
        *("Collecting Duct, Connecting Tubule", "Distal Convoluted Tubule", "Glomerular endothelial cells"),
        *("Interstitial endothelial cells", "Leukocytes", "Podocytes", "Proximal Tubule Segments"),
        "Thick Ascending Limb",
    ),
    "organamnist": _ORGANS,
    "organcmnist": _ORGANS,
    "organsmnist": _ORGANS,
}
"""The names of the classes, of ChestMNIST those of the findings, as the authors' package has them."""

SIZES = (28, 64, 128, 224)
SPLITS = ("train", "val", "test")

_IN_COLOUR = ("pathmnist", "dermamnist", "retinamnist", "bloodmnist")


def part_name(name: str, size: int) -> str:
    """Name the part of a set in a size: "pathmnist", "pathmnist-64"."""
    return name if size == SIZES[0] else f"{name}-{size}"


class MedMNIST(ArraysRecipe):
    """One set in one size. A label is a number, of ChestMNIST 14 numbers: which findings there are."""

    splits: Splits = {split: [(f"{split}_images.npy", f"{split}_labels.npy")] for split in SPLITS}

    @property
    @override
    def image_shape(self) -> tuple[int, ...]:  # type: ignore[override]  # a constant of other recipes
        name, _, size = self.part.partition("-")
        side = int(size or SIZES[0])
        return (side, side, 3) if name in _IN_COLOUR else (side, side)

    @override
    def decode(self, name: str, file: BinaryIO) -> Iterator[Chunk]:
        for values in read_npy(file):
            if "_images" in name:
                yield {"image": values}
            else:
                yield {"target": (values[:, 0] if values.shape[1] == 1 else values).astype(np.int64)}

    @override
    def classes(self, texts: Mapping[str, bytes]) -> Sequence[str]:
        return CLASSES[self.part.partition("-")[0]]

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        table = super().build_table(stored, sidecars)
        if table.arrays["target"].ndim == 1:
            return table
        return dataclasses.replace(
            table, classes=None, fields={"target": FieldSpec(FieldKind.MULTILABEL, tuple(table.classes or ()))}
        )


RECIPES = {"medmnist": MedMNIST}
