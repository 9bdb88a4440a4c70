"""`TargetTypesDataset`: class folders with an argument for the kind of target: the label, a box, parts, ..."""

from collections.abc import Sequence, Set
from typing import Any, ClassVar, Generic, TypeVar, Unpack

import numpy as np
import torch
from torchvision.datasets.folder import default_loader
from typing_extensions import override

from recordzoo.errors import ArgumentError
from recordzoo.families.base import Pair, Root, Transform, check_choice
from recordzoo.families.class_folder import ClassFolderDataset
from recordzoo.families.path_loader import Loader
from recordzoo.families.splits import SplitFilesDataset, SplitName
from recordzoo.preparing import PrepareOptions

# Any, in all of this module: targets are of any kind, samples what the loader and the transforms make.

TargetType = TypeVar("TargetType", bound=str)
"""The target types, for editors: `Literal["category", "bbox"]`."""


def check_types(target_type: str | Sequence[str], valid: Sequence[str]) -> list[str]:
    """Return the target types that the argument `target_type` names: at least one, of those that are valid."""
    types = [target_type] if isinstance(target_type, str) else list(target_type)
    if not types:
        raise ArgumentError(f"target_type is {target_type!r}; it must name at least one of {', '.join(valid)}.")
    return [check_choice(kind, "target_type", valid) for kind in types]


class TargetTypesDataset(SplitFilesDataset[SplitName], ClassFolderDataset, Generic[SplitName, TargetType]):
    """`ClassFolderDataset` with targets besides the label; `samples` has the label, whatever the target is.

    Attributes:
        split: As given.
        target_type: As given; a list if several were given.
        _TARGET_TYPES: All target types. The first is the label.
        _IN_PIXELS: Those in pixels of the original images, which do not fit a smaller variant.
        _FIELDS: For each target type that is made of a blob field, that field.
    """

    _SPLIT = "split"
    _PATH = str
    _ALLOWS_EMPTY = True
    _TARGET_TYPES: ClassVar[Sequence[str]]
    _IN_PIXELS: ClassVar[Set[str]] = frozenset()
    _FIELDS: ClassVar[dict[str, str]] = {}

    split: str
    target_type: str | list[str]
    _target_types: list[str]

    def __init__(
        self,
        root: Root,
        split: SplitName = "train",  # type: ignore[assignment]  # all of them have a split of this name
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        target_type: TargetType | Sequence[TargetType] = "category",  # type: ignore[assignment]  # as above
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        self._choose_split(split)
        self._choose_targets(target_type)
        self._show_split(split, download=download, options=options, loader=loader)

    def _choose_targets(self, target_type: str | Sequence[str]) -> None:
        """Set the kinds of target."""
        self._target_types = check_types(target_type, self._TARGET_TYPES)
        self.target_type = target_type if isinstance(target_type, str) else self._target_types.copy()

    def _in_pixels(self) -> Sequence[str]:
        return [f"target_type {kind!r}" for kind in self._target_types if kind in self._IN_PIXELS]

    @override
    def fusion_problem(self) -> str:
        if self.target_type != self._TARGET_TYPES[0]:
            return f"{type(self).__name__} has other targets than labels"
        return self._label_problem(TargetTypesDataset, "samples") or self._loader.fusion_problem()

    def __getitem__(self, index: int) -> Pair:
        """Return (image, target); the target is a tuple if `target_type` is a list.

        Raises:
            LookupError: The sample was assigned and is not in the record set; nothing but its label is known.
        """
        label_type = self._TARGET_TYPES[0]
        if self.target_type == label_type:
            return super().__getitem__(index)
        sample, label = self._load(index)
        targets = tuple(label if kind == label_type else self._target_at(kind, index) for kind in self._target_types)
        target = targets[0] if isinstance(self.target_type, str) else targets
        return self._transformed(sample, target)

    def _target_at(self, kind: str, index: int) -> Any:
        position = self._position(index)
        if position is None:
            label_type = self._TARGET_TYPES[0]
            raise LookupError(
                f"sample {index} was assigned, and is not in {self.records_path}: only its {label_type} is known."
            )
        return self._target(kind, position)

    def _target(self, kind: str, position: int) -> Any:
        """Return a target other than the label; here a tensor of the array field of that name."""
        # A copy: the array is a read-only view of the file.
        return torch.from_numpy(np.array(self._selection.reader.array(kind)[position]))

    def _hint_positions(self, positions: Sequence[int]) -> None:
        super()._hint_positions(positions)
        for field in {self._FIELDS[kind] for kind in self._target_types if kind in self._FIELDS}:
            self._selection.reader.hint(field, positions)
