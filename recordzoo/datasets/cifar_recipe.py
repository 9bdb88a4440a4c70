"""How CIFAR-10 and CIFAR-100 become records: the pixels of their pickled batches, training images first."""

import pickle
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, ClassVar

import numpy as np
from typing_extensions import override

from recordzoo.recipes.arrays import ArraysRecipe, Chunk
from recordzoo.recipes.pickles import PickledArray, unpickle


# Any: lists of numbers or text, arrays.
def load_batch(data: bytes) -> dict[str, Any]:
    """Read a pickled dict of lists, text, numbers and arrays; nothing in it is executed.

    Raises:
        ValueError: It is no pickle of a dict, or asks for a class or function that no array needs.
    """
    try:
        content = unpickle(data, text=True)
    except pickle.UnpicklingError as err:
        raise ValueError(f"it cannot be unpickled ({err})"[:300]) from err
    if not isinstance(content, dict):
        raise ValueError(f"it holds a {type(content).__name__}, not a dict")
    return {key: value.values if isinstance(value, PickledArray) else value for key, value in content.items()}


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
        batch = load_batch(file.read())
        planes = batch["data"].reshape(-1, 3, 32, 32)  # red, green, blue
        yield {"image": planes.transpose(0, 2, 3, 1), "target": np.array(batch[self.labels], np.int64)}

    @override
    def classes(self, texts: Mapping[str, bytes]) -> list[str]:
        return list(load_batch(texts[self.texts[0]])[self.names])


class CIFAR100(CIFAR10):
    """One batch a split; the labels are the fine ones."""

    unpacked = "cifar-100-python/"
    splits = {"train": ["train"], "test": ["test"]}
    texts = ("meta",)
    labels = "fine_labels"
    names = "fine_label_names"


RECIPES = {"cifar10": CIFAR10, "cifar100": CIFAR100}
