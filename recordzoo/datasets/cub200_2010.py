"""`CUB200_2010Record`: the CUB-200 of 2010, 200 kinds of birds, from records."""

import io
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image
from torchvision.datasets import ImageFolder

from recordzoo.base.text import TrainTest
from recordzoo.families.arrays import TargetTypesDataset

CUB200_2010Target = Literal["category", "bbox", "segmentation"]


class CUB200_2010Record(TargetTypesDataset[TrainTest, CUB200_2010Target], ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """The CUB-200 of 2010, read from records: photographs of 200 kinds of birds, in the order of the authors' lists.

    `CUB200Record` is the set of 2011, which has more photographs. A label is the authors' number of the class, less 1:
    the place of its folder ("001.Black_footed_Albatross") among the sorted ones. ``read(index, "annotation")`` gives
    the annotation file, in MATLAB's format.

    Args:
        target_type: What the target is, or a list of such names for a tuple of them: "category" (int from 0), "bbox"
            (float32 [4]: left, top, right, bottom in pixels) or "segmentation" (a rough mask as a PIL image of the size
            of the photograph, with the authors' values).

    Attributes:
        classes: The names of the folders: "001.Black_footed_Albatross".

    Examples:
        >>> dataset = CUB200_2010Record("data", "test", target_type=["category", "segmentation"])
        >>> image, (label, mask) = dataset[0]
    """

    entry = "cub200_2010"
    _TARGET_TYPES = ("category", "bbox", "segmentation")
    _IN_PIXELS = frozenset(("bbox", "segmentation"))
    _FIELDS = {"bbox": "annotation", "segmentation": "annotation"}

    # Any: a tensor or an image.
    def _target(self, kind: str, position: int) -> Any:
        from scipy.io import loadmat

        variable = "bbox" if kind == "bbox" else "seg"
        data = io.BytesIO(self._selection.reader.read("annotation", position))
        # The type is ignored: loadmat takes files, too.
        value = loadmat(data, squeeze_me=True, variable_names=[variable])[variable]  # type: ignore[arg-type]
        if kind == "segmentation":
            return Image.fromarray(np.atleast_2d(value).astype(np.uint8))
        sides = [float(value[side]) for side in ("left", "top", "right", "bottom")]
        return torch.tensor(sides, dtype=torch.float32)
