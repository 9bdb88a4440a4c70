"""How STL-10 becomes records: raw bytes, each image three planes in column-major order."""

from collections.abc import Iterator, Mapping
from typing import BinaryIO

import numpy as np
from typing_extensions import override

from recordzoo.base.text import text_of
from recordzoo.recipes.arrays import ArraysRecipe, Chunk
from recordzoo.recipes.recipe import Stored, Table

_IMAGE_BYTES = 3 * 96 * 96
_CHUNK = 1024


class STL10(ArraysRecipe):
    """Labelled and unlabelled photographs; -1 is the label of the latter. Folds of "train" are splits, too."""

    unpacked = "stl10_binary/"
    image_shape = (96, 96, 3)
    splits = {
        "train": [("train_X.bin", "train_y.bin")],
        "unlabeled": ["unlabeled_X.bin"],
        "test": [("test_X.bin", "test_y.bin")],
    }
    texts = ("class_names.txt", "fold_indices.txt")

    @override
    def decode(self, name: str, file: BinaryIO) -> Iterator[Chunk]:
        if name.endswith("_y.bin"):
            yield {"target": np.frombuffer(file.read(), np.uint8).astype(np.int64) - 1}
            return
        while data := file.read(_CHUNK * _IMAGE_BYTES):
            images = np.frombuffer(data, np.uint8).reshape(-1, 3, 96, 96).transpose(0, 3, 2, 1)
            yield {"image": images, **({"target": np.full(len(images), -1)} if name.startswith("unl") else {})}

    @override
    def classes(self, texts: Mapping[str, bytes]) -> list[str] | None:
        return (
            text_of(texts["class_names.txt"], "stl10: class_names.txt").splitlines()
            if "class_names.txt" in texts
            else None
        )

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        table = super().build_table(stored, sidecars)
        folds = text_of(sidecars.get("fold_indices.txt", b""), "stl10: fold_indices.txt").splitlines()
        positions = {f"fold{number}": np.array(fold.split(), np.int64) for number, fold in enumerate(folds)}
        return table.with_splits(positions)  # "train" begins at position 0


RECIPES = {"stl10": STL10}
