"""`NABirdsRecord`: NABirds, 555 classes of North American birds, from records."""

from typing import Literal

from torchvision.datasets import ImageFolder

from recordzoo.base.text import TrainTest
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

    Attributes:
        classes: The numbers of the classes, as their folders have them: "0295".

    Examples:
        >>> dataset = NABirdsRecord("data", "test", target_type=["category", "bbox"])
        >>> image, (label, box) = dataset[0]
    """

    entry = "nabirds"
    _TARGET_TYPES = ("category", "bbox", "parts")
    _IN_PIXELS = {"bbox": "XYWH", "parts": "points"}

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
