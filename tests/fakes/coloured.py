"""Two splits of images that a colour tells apart, however they are cropped: what a model was given is certain."""

from pathlib import Path

import torch
from PIL import Image

from tests.fakes.pictures import encoded

MEAN, STD = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
STEP, FIRST = 6, 16
"""An image's number is its green: `FIRST` + `STEP` times the number; JPEG changes a colour by less than half of it."""


def write_trees(root: Path, trained: int, validated: int) -> Path:
    """Write the folders train and val, each with images of two classes; those of number n are called n.jpg."""
    for split, count in (("train", trained), ("val", validated)):
        for number in range(count):
            path = root / split / str(number % 2) / f"{number:02d}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            image = Image.new("RGB", (40, 36), (40 + 150 * (number % 2), FIRST + STEP * number, 128))
            path.write_bytes(encoded(image, "JPEG", quality=95))
    return root


def numbers_of(images: torch.Tensor) -> list[int]:
    """Return the numbers of images that were normalised as ImageNet's, float [N, 3, H, W]."""
    green = (images.mean((2, 3))[:, 1] * STD[1] + MEAN[1]) * 255
    return ((green - FIRST) / STEP).round().int().tolist()
