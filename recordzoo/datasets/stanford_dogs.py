"""`StanfordDogsRecord`: Stanford Dogs, 120 breeds of dogs, from records."""

import io
from typing import Literal

import torch
from torchvision.datasets import ImageFolder
from torchvision.datasets.voc import ET_parse

from recordzoo.base.text import TrainTest
from recordzoo.families.folders import TargetTypesDataset

DogTarget = Literal["category", "boxes"]


class StanfordDogsRecord(TargetTypesDataset[TrainTest, DogTarget], ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """Stanford Dogs, read from records: photographs of 120 breeds of dogs, in the order of the authors' lists.

    A label is the authors' number of the breed, less 1: the place of its folder ("n02085620-Chihuahua") among the
    sorted ones. ``read(index, "annotation")`` gives the annotation file, XML as that of Pascal VOC.

    Args:
        target_type: What the target is, or a list of such names for a tuple of them: "category" (int from 0) or
            "boxes" (float32 [n, 4], one row a dog: xmin, ymin, xmax, ymax in pixels).

    Attributes:
        classes: The names of the folders: "n02085620-Chihuahua".

    Examples:
        >>> dataset = StanfordDogsRecord("data", "test", target_type=["category", "boxes"])
        >>> image, (label, boxes) = dataset[0]
    """

    entry = "stanford_dogs"
    _TARGET_TYPES = ("category", "boxes")
    _IN_PIXELS = {"boxes": "XYXY"}
    _FIELDS = {"boxes": "annotation"}

    def _target(self, kind: str, position: int) -> torch.Tensor:
        root = ET_parse(io.BytesIO(self._selection.reader.read("annotation", position))).getroot()
        sides = ("xmin", "ymin", "xmax", "ymax")
        boxes = [[float(box.findtext(side)) for side in sides] for box in root.iter("bndbox")]
        return torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4)
