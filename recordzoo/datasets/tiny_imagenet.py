"""`TinyImageNetRecord`: Tiny ImageNet, 200 classes of 64 by 64 pixels, from records."""

from collections.abc import Sequence
from typing import Literal

from torchvision.datasets import ImageFolder
from typing_extensions import override

from recordzoo.base.text import TrainValTest
from recordzoo.errors import ArgumentError
from recordzoo.families.base import derived
from recordzoo.families.folders import TargetTypesDataset

TinyTarget = Literal["category", "bbox"]


class TinyImageNetRecord(TargetTypesDataset[TrainValTest, TinyTarget], ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """Tiny ImageNet, read from records: images of 64 by 64 pixels, sorted by their paths.

    A label is the place of the WNID among the sorted ones, as ImageFolder has it; ``wnids.txt`` is not sorted. The
    labels of "test" were never published: they are -1.

    Args:
        target_type: What the target is, or a list of such names for a tuple of them: "category" (int from 0) or "bbox"
            (float32 [4]: xmin, ymin, xmax, ymax in pixels; not for "test").

    Attributes:
        classes: The WNIDs: "n01443537".

    Raises:
        ArgumentError: "bbox" is asked for with "test".

    Examples:
        >>> dataset = TinyImageNetRecord("data", "val", target_type=["category", "bbox"])
        >>> image, (label, box) = dataset[0]
    """

    entry = "tiny_imagenet"
    _SPLITS = ("train", "val", "test")
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
