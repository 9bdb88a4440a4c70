"""`FakeDataRecord`: torchvision's FakeData. It has no files, and so no records: samples are made when taken."""

from typing import Any

import torch
from torchvision.datasets import FakeData
from torchvision.transforms.functional import to_pil_image


class FakeDataRecord(FakeData):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `FakeData`: the same random images and labels, made when they are taken. Nothing is stored.

    Each sample has a generator of its own. torchvision seeds those of the whole process, also CUDA's, and sets back
    only the CPU's: there threads disturb each other, and random numbers on a GPU repeat.

    Args:
        size: Number of images.
        image_size: Their shape, (channels, height, width).
        num_classes: Number of classes.
        transform: Applied to the image.
        target_transform: Applied to the label, a tensor; what it returns must have ``item()``.
        random_offset: Added to the index of a sample, which is the seed of its generator.

    Examples:
        >>> dataset = FakeDataRecord(size=100, image_size=(3, 32, 32))
        >>> image, label = dataset[0]
    """

    # Any: what the transforms make of it.
    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return (PIL image, label).

        Raises:
            IndexError: There is no such sample.
        """
        if index >= len(self):
            raise IndexError(f"{type(self).__name__} index out of range")
        generator = torch.Generator().manual_seed(int(index + self.random_offset))
        image: Any = to_pil_image(torch.randn(*self.image_size, generator=generator))
        target: Any = torch.randint(0, self.num_classes, size=(1,), generator=generator)[0]
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target.item()
