"""`FER2013Record`: torchvision's FER2013 from records."""

from typing import Any, Unpack

import torch
from torchvision.datasets import FER2013
from typing_extensions import override

from recordzoo.base.text import TrainTest
from recordzoo.families.arrays import ArrayDataset
from recordzoo.families.base import Root, Transform, check_choice, derived
from recordzoo.families.selection import MutableSelection, Selection, list_index
from recordzoo.preparing.options import PrepareOptions
from recordzoo.recipes.recipe import NO_TARGET
from recordzoo.records.reader import RecordReader


class FER2013Record(ArrayDataset, FER2013):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `FER2013`, read from records; each split is a record set of its own.

    The raw data is got by hand from Kaggle: ``recordzoo prepare fer2013`` says how. Test images have no labels, and
    their target is None, if they came from ``test.csv``.
    """

    entry = "fer2013"
    _ITEMS = _LABELS = "_samples"

    def __init__(
        self,
        root: Root,
        split: TrainTest = "train",
        transform: Transform = None,
        target_transform: Transform = None,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._split = self._part = check_choice(split, "split", ("train", "test"))
        self._start(root, transform=transform, target_transform=target_transform)
        self._show_split("", download=None, options=options)

    @override
    def _selection_of(self, reader: RecordReader, split: str) -> Selection:
        return MutableSelection(reader)

    @derived
    def _samples(self) -> list[tuple[torch.Tensor, int | None]]:
        count = len(self._selection)
        return [(torch.from_numpy(self._stored(number).copy()), self._stored_label(number)) for number in range(count)]

    @derived
    def targets(self) -> list[int | None]:  # type: ignore[override]  # torchvision's has None, too
        """The labels; None for images without one."""
        return [self._stored_label(number) for number in range(len(self._selection))]

    def _stored_label(self, number: int) -> int | None:
        label = self._selection.target(number)
        return None if label == NO_TARGET else int(label)

    # Any: an index of any kind.
    def _number(self, index: Any) -> int | None:
        return list_index(index, len(self._selection))

    def _member_md5s(self) -> dict[str, str]:
        return dict(self._RESOURCES.values())
