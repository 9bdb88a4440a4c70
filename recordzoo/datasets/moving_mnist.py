"""`MovingMNISTRecord`: torchvision's MovingMNIST from records."""

import os
from typing import Any, NoReturn, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torchvision.datasets import MovingMNIST

from recordzoo.base.text import TrainTest
from recordzoo.errors import ArgumentError
from recordzoo.families.arrays import ArrayDataset
from recordzoo.families.base import Root, Transform, ZooDataset, check_choice, derived
from recordzoo.preparing.options import PrepareOptions


class MovingMNISTRecord(ArrayDataset, MovingMNIST):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `MovingMNIST`, read from records: videos without labels.

    A sample is a tensor, uint8 [frames, 1, 64, 64]. ``data``, uint8 [n, frames, 1, 64, 64], is read into memory on
    first access (0.8 GB); from then on, changes to it show in the samples.

    Args:
        split: "train": the first frames of all videos; "test": the other frames; None: all frames.
        split_ratio: How many frames are the first, 1 to 19.
        transform: Applied to the video.

    Raises:
        TypeError: `split_ratio` is no int.

    Examples:
        >>> dataset = MovingMNISTRecord("data", split="train", split_ratio=12)
        >>> video = dataset[0]
    """

    entry = "moving_mnist"
    _OUT_OF_RANGE = "index {index} is out of bounds for dimension 0 with size {length}"

    def __init__(
        self,
        root: Root,
        split: TrainTest | None = None,
        split_ratio: int = 10,
        download: bool = False,
        transform: Transform = None,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform)
        self._base_folder = os.path.join(self.root, "MovingMNIST")
        self._filename = os.path.basename(self._URL)
        self.split = None if split is None else check_choice(split, "split", ("train", "test"))
        if not isinstance(split_ratio, int):
            raise TypeError(f"`split_ratio` should be an integer, but got {type(split_ratio)}")
        if not 1 <= split_ratio <= 19:
            raise ArgumentError(f"`split_ratio` should be `1 <= split_ratio <= 19`, but got {split_ratio} instead.")
        self.split_ratio = split_ratio
        self._frames = slice(split_ratio if split == "test" else 0, split_ratio if split == "train" else None)
        self._show_split("all", download=download, options=options)

    @derived
    def data(self) -> torch.Tensor:  # type: ignore[override]  # torchvision's is a tensor here
        """All videos, uint8 [n, frames, 1, 64, 64]."""
        return self._stacked(self._all_pixels())

    def _stacked(self, pixels: NDArray[np.uint8]) -> torch.Tensor:
        """Make tensors [..., frames, 1, 64, 64] of the split's frames of videos, uint8 [..., 20, 64, 64]."""
        return torch.from_numpy(pixels[..., self._frames, None, :, :].copy())

    # Any: what the transform makes of it.
    def __getitem__(self, idx: int) -> Any:
        """Return the video."""
        number = None if self._has("data") else self._number(idx)
        if number is None:
            return self._unusual_item(idx)
        video: Any = self._stacked(self._stored(number))
        return video if self.transform is None else self.transform(video)

    @property
    def targets(self) -> NoReturn:
        """Always empty."""
        raise AttributeError(f"{type(self).__name__} has no labels")

    def _batch_problem(self) -> str:
        return ZooDataset._batch_problem(self)
