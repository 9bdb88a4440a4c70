"""How CIFAR-10 and CIFAR-100 become records: the pixels of their pickled batches, training images first."""

from collections.abc import Iterator, Mapping
from typing import BinaryIO, ClassVar

import numpy as np
from typing_extensions import override

from recordzoo.recipes.array_pickles import load_arrays
from recordzoo.recipes.arrays import ArraysRecipe, Chunk


class CIFAR10(ArraysRecipe):
    """Batches of 10,000 images, each a pickled dict."""

    unpacked = "cifar-10-batches-py/"
    splits = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}
    texts = ("batches.meta",)
    image_shape = (32, 32, 3)
    labels: ClassVar[str] = "labels"
    names: ClassVar[str] = "label_names"

    @override
    def decode(self, name: str, file: BinaryIO) -> Iterator[Chunk]:
        batch = load_arrays(file.read())
        planes = batch["data"].reshape(-1, 3, 32, 32)  # red, green, blue
        yield {"image": planes.transpose(0, 2, 3, 1), "target": np.array(batch[self.labels], np.int64)}

    @override
    def classes(self, texts: Mapping[str, bytes]) -> list[str]:
        return list(load_arrays(texts[self.texts[0]])[self.names])


class CIFAR100(CIFAR10):
    """One batch a split; the labels are the fine ones."""

    unpacked = "cifar-100-python/"
    splits = {"train": ["train"], "test": ["test"]}
    texts = ("meta",)
    labels = "fine_labels"
    names = "fine_label_names"


RECIPES = {"cifar10": CIFAR10, "cifar100": CIFAR100}
