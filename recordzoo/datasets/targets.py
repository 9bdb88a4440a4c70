"""Images with several kinds of target from records: NABirds, Online Products, Stanford Dogs and Tiny ImageNet."""

import io
from collections.abc import Sequence
from typing import Literal

import torch
from torchvision.datasets import ImageFolder
from torchvision.datasets.voc import ET_parse
from typing_extensions import override

from recordzoo.base.text import TrainTest, TrainValTest
from recordzoo.errors import ArgumentError
from recordzoo.families.base import derived
from recordzoo.families.folders import TargetTypesDataset

NABirdsTarget = Literal["category", "bbox", "parts"]


class NABirdsRecord(TargetTypesDataset[TrainTest, NABirdsTarget], ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """NABirds, read from records: photographs of North American birds, sorted by their paths as ImageFolder has them.

    The authors number 1,011 nodes of a hierarchy, of which 555 have photographs. A label is the place of the class's
    number among those 555; ``int(classes[label])`` is the number, and `node_names` and `parents` tell the rest.

    Args:
        download: Download the archive from a mirror of your own if it is not there. Its authors give it to people who
            accept their terms on a form; the error says how.
        target_type: What the target is, or a list of such names for a tuple of them: "category" (int from 0), "bbox"
            (float32 [4]: x, y, width, height in pixels) or "parts" (float32 [11, 3]: x, y, visible).
    """

    _ENTRY = "nabirds"
    _TARGET_TYPES = ("category", "bbox", "parts")
    _IN_PIXELS = {"bbox": "XYWH", "parts": "seen points"}

    @derived
    def class_names(self) -> list[str]:
        """The names of the classes in the order of their labels: "Common Eider (Adult male)"."""
        return list(self._selection.reader.manifest.metadata["class_names"])

    @derived
    def part_names(self) -> list[str]:
        """The names of the parts."""
        return list(self._selection.reader.manifest.metadata["part_names"])

    @derived
    def node_names(self) -> dict[int, str]:
        """The name of each node of the hierarchy, by its number."""
        return dict(self._selection.reader.manifest.metadata["nodes"])

    @derived
    def parents(self) -> dict[int, int]:
        """The number of each node's parent, by the node's number; the root has none."""
        return dict(self._selection.reader.manifest.metadata["parents"])


ProductTarget = Literal["category", "super_category"]


class OnlineProductsRecord(TargetTypesDataset[TrainTest, ProductTarget], ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """Stanford Online Products, read from records: photographs of products, in the order of the authors' lists.

    A label is the authors' number of the product, less 1. No product is in both splits: those of "train" are 0 to
    11,317, those of "test" 11,318 to 22,633.

    Args:
        target_type: What the target is, or a list of such names for a tuple of them: "category" (the product, int from
            0) or "super_category" (its kind, int from 0 to 11).

    Attributes:
        classes: The authors' numbers of all products, of both splits: "1", "2", ...
    """

    _ENTRY = "online_products"
    _TARGET_TYPES = ("category", "super_category")

    @derived
    def super_classes(self) -> list[str]:
        """The kinds of products in the order of their labels: "bicycle"."""
        return self._names_of("super_category")

    @override
    def _target(self, kind: str, position: int) -> int:
        return int(self._selection.reader.array(kind)[position])


DogTarget = Literal["category", "boxes"]


class StanfordDogsRecord(TargetTypesDataset[TrainTest, DogTarget], ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """Stanford Dogs, read from records: photographs of 120 breeds of dogs, in the order of the authors' lists.

    A label is the authors' number of the breed, less 1: the place of its folder ("n02085620-Chihuahua") among the
    sorted ones. ``read(index, "annotation")`` gives the annotation file, XML as that of Pascal VOC.

    Args:
        target_type: What the target is, or a list of such names for a tuple of them: "category" (int from 0) or
            "boxes" (float32 [n, 4], one row a dog: xmin, ymin, xmax, ymax in pixels).
    """

    _ENTRY = "stanford_dogs"
    _TARGET_TYPES = ("category", "boxes")
    _IN_PIXELS = {"boxes": "XYXY"}
    _FIELDS = {"boxes": "annotation"}

    def _target(self, kind: str, position: int) -> torch.Tensor:
        root = ET_parse(io.BytesIO(self._selection.reader.read("annotation", position))).getroot()
        sides = ("xmin", "ymin", "xmax", "ymax")
        boxes = [[float(box.findtext(side)) for side in sides] for box in root.iter("bndbox")]
        return torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4)


TinyTarget = Literal["category", "bbox"]


class TinyImageNetRecord(TargetTypesDataset[TrainValTest, TinyTarget], ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """Tiny ImageNet, read from records: images of 64 by 64 pixels, sorted by their paths.

    A label is the place of the WNID among the sorted ones, as ImageFolder has it; ``wnids.txt`` is not sorted. The
    labels of "test" were never published: they are -1.

    Args:
        target_type: What the target is, or a list of such names for a tuple of them: "category" (int from 0) or "bbox"
            (float32 [4]: xmin, ymin, xmax, ymax in pixels; not for "test").

    Raises:
        ArgumentError: "bbox" is asked for with "test".
    """

    _ENTRY = "tiny_imagenet"
    _TARGET_TYPES = ("category", "bbox")
    _IN_PIXELS = {"bbox": "XYXY"}

    @override
    def _choose_targets(self, target_type: str | Sequence[str]) -> None:
        super()._choose_targets(target_type)
        if self.split == "test" and "bbox" in self._target_types:
            raise ArgumentError("The authors published no boxes for split='test'. Take target_type='category'.")

    @derived
    def class_names(self) -> list[str]:
        """The words for each class, in the order of the labels: "goldfish, Carassius auratus"."""
        return list(self._selection.reader.manifest.metadata["class_names"])
