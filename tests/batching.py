"""What the tests of `RecordLoader` share: a tree of small pictures, transforms, and what being the same means."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torchvision import transforms as v1
from torchvision.transforms import v2

from recordzoo import ImageFolderRecord
from tests.fakes.folder import write_tree
from tests.fakes.pictures import encoded, picture

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
NUM_IMAGES = 41

RANDOM = v2.Compose([v2.RandomResizedCrop(24), v2.RandomHorizontalFlip(), v2.PILToTensor()])
FIXED = v1.Compose([v1.Resize(30), v1.CenterCrop(24), v1.ToTensor(), v1.Normalize(MEAN, STD)])
UINT8 = v1.Compose([v1.Resize((24, 20)), v1.PILToTensor()])
JITTER = v1.Compose([v1.RandomResizedCrop(24), v1.ColorJitter(0.5, 0.5), v1.ToTensor()])


def image_file(number: int) -> bytes:
    rng = np.random.default_rng(number)
    image = picture(rng, 90 + 7 * (number % 5), 104 - 5 * (number % 4))
    if number % 7 == 6:
        return encoded(image.convert("P"), "PNG")
    return encoded(image.convert("L") if number % 9 == 8 else image, "JPEG", subsampling=number % 3, quality=90)


def make_tree(root: Path) -> Path:
    """Write a tree of pictures of several kinds, in five classes, and make the record set beside it."""
    write_tree(root, {f"{number % 5}/{number:02d}.jpg": image_file(number) for number in range(NUM_IMAGES)})
    ImageFolderRecord(root)
    return root


# Any: batches of all kinds.
def assert_same(found: Any, right: Any) -> None:
    """Equal, of the same types and dtypes all the way down."""
    assert type(found) is type(right)
    if isinstance(right, torch.Tensor):
        assert (found.dtype, found.shape) == (right.dtype, right.shape)
        assert torch.equal(found, right)
    elif isinstance(right, dict):
        assert list(found) == list(right)
        assert_same(list(found.values()), list(right.values()))
    elif isinstance(right, np.ndarray):
        assert found.dtype == right.dtype
        assert np.array_equal(found, right)
    elif isinstance(right, list | tuple):
        assert len(found) == len(right)
        for one, other in zip(found, right, strict=True):
            assert_same(one, other)
    elif isinstance(right, Image.Image):
        assert (found.mode, found.size) == (right.mode, right.size)
        assert found.tobytes() == right.tobytes()
    else:
        assert found == right
