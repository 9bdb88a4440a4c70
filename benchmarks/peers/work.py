"""The work that every peer does: random resized crop, random flip, batches of uint8 or of normalised float32."""

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms as T

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Work:
    """What is asked of a loader.

    Attributes:
        dtype: "uint8", or "float32": normalised with ImageNet's mean and standard deviation.
        workers: Processes or threads, whatever the loader has.
        size: Side of the crop; None for whole images, as they are.
    """

    dtype: str = "uint8"
    batch_size: int = 64
    workers: int = 2
    size: int | None = 224

    def transform(self) -> T.Compose:
        """Make torchvision's transforms for it."""
        if self.size is None:
            return T.Compose([T.PILToTensor()])
        crop = [T.RandomResizedCrop(self.size), T.RandomHorizontalFlip(), T.PILToTensor()]
        if self.dtype == "uint8":
            return T.Compose(crop)
        return T.Compose([*crop, T.ConvertImageDtype(torch.float32), T.Normalize(MEAN, STD)])


def stock_loader(dataset: Dataset[Any], work: Work, *, shuffle: bool = True) -> DataLoader[Any]:
    """Make torch's own DataLoader, its workers kept from one epoch to the next."""
    return DataLoader(
        dataset, work.batch_size, shuffle=shuffle, num_workers=work.workers, persistent_workers=work.workers > 0
    )
