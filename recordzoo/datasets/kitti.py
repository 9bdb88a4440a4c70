"""`KittiRecord`: torchvision's Kitti from records."""

import csv
import io
import os
from collections.abc import Sequence
from typing import Any, Unpack

from torchvision.datasets import Kitti
from typing_extensions import override

from recordzoo.datasets.kitti_recipe import FOLDERS
from recordzoo.families.base import Root, Transform, derived
from recordzoo.families.files import Files, PairsDataset
from recordzoo.families.selection import Selection
from recordzoo.preparing.options import PrepareOptions

# The columns of a label file, in order: name and number of values (from the development kit's readme).
_COLUMNS = {
    "type": 0,
    "truncated": 1,
    "occluded": 1,
    "alpha": 1,
    "bbox": 4,
    "dimensions": 3,
    "location": 3,
    "rotation_y": 1,
}


class KittiRecord(PairsDataset, Kitti):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Kitti`, read from records. Training and test images are a record set each.

    Samples are sorted by file name; torchvision has the order in which the file system lists them.

    Args:
        train: The training images with their labels; otherwise the test images, whose target is None.

    Examples:
        >>> dataset = KittiRecord("data")
        >>> image, objects = dataset[0]
    """

    entry = "kitti"
    _TARGET = "label"
    _IS_RGB = False

    def __init__(
        self,
        root: Root,
        train: bool = True,
        transform: Transform = None,
        target_transform: Transform = None,
        transforms: Transform = None,
        download: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transforms=transforms, transform=transform, target_transform=target_transform)
        self.train = train
        self._part = "train" if train else "test"
        self._location = FOLDERS[self._part]
        reader = self._open_part(download=download, options=options)
        folder = os.path.join(self._raw_folder, self._location)
        files = {"image": Files("images", os.path.join(folder, self.image_dir_name), ".png")}
        if train:
            files["label"] = Files("targets", os.path.join(folder, self.labels_dir_name), ".txt")
        self._show_paths(Selection(reader, self._part), files)

    def _in_pixels(self) -> Sequence[str]:
        return ["the target"] if self.train else []

    @property
    def _raw_folder(self) -> str:
        return os.path.join(self.root, "Kitti", "raw")  # torchvision's has the name of the class in it

    @derived
    def targets(self) -> list[str]:
        """The paths of the label files; none of the test images."""
        return self._paths("label") if self.train else []

    # Any: a list of dicts, or None.
    @override
    def _target(self, index: int) -> Any:
        return self._parse_target(index) if self.train else None

    def _parse_target(self, index: int) -> Any:
        return super()._target(index)

    @override
    def _load_target(self, data: bytes) -> Any:
        return [_parsed(line) for line in csv.reader(io.StringIO(data.decode()), delimiter=" ")]


# Any: strings, numbers and lists of numbers.
def _parsed(line: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"type": line[0]}
    start = 1
    for name, count in _COLUMNS.items():
        if count:
            numbers = list(map(float, line[start : start + count]))
            found[name] = numbers if count > 1 else numbers[0]
            start += count
    found["occluded"] = int(line[2])
    return found
