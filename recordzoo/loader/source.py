"""Find the leaves of a dataset, through any `Subset` and `ConcatDataset` around them.

A leaf is a dataset with its store of images and targets and the plan of its transforms.
"""

import copy
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import ConcatDataset, Subset
from typing_extensions import override

from recordzoo.errors import SampleIndexError
from recordzoo.families.base import ZooDataset
from recordzoo.images.decode import deferring, is_pixels
from recordzoo.loader.joint import JointPlan, as_plain, is_wrapped, read_joint
from recordzoo.loader.mix import Mix
from recordzoo.loader.orders import NewNumbers
from recordzoo.loader.originals import items_of, pictures
from recordzoo.loader.plan import Views
from recordzoo.loader.storage import by_part
from recordzoo.loader.stores import Indices, Own, Records, SampleStore, has_image_bytes, indices_of, read_plain
from recordzoo.loader.table import read_views
from recordzoo.records.reader import RecordReader

# Any, in all of this module: datasets, samples and transforms have the user's types.

_LOOKED_AT_ONCE = 1 << 20

_channels: "weakref.WeakKeyDictionary[RecordReader, bool]" = weakref.WeakKeyDictionary()


class Leaf(ABC):
    """A dataset whose images a loader decodes."""

    target_transform: Callable[[Any], Any] | None = None

    def __init__(self, dataset: Any, store: SampleStore, views: Views) -> None:
        self.dataset, self.store, self.views = dataset, store, views

    @property
    @abstractmethod
    def is_fused(self) -> bool:
        """Whether no transform runs as written."""

    @abstractmethod
    def check(self, index: int) -> None:
        """Read and decode the image of a sample; raise if that fails."""

    @property
    def is_small(self) -> bool:
        """Whether one thread is faster than several, because images are tiny and Python's lock decides."""
        return False

    @property
    def written(self) -> list[Any]:
        """The transforms as written; compared by identity to see whether one was replaced."""
        return [getattr(self.dataset, name, None) for name in ("transform", "target_transform", "transforms")]

    @property
    def _has_rest(self) -> bool:
        return any(plan.rest for plan in self.views.plans)

    # Any: a target.
    def transformed(self, index: int, target: Any) -> Any:
        """Return a target after the `target_transform`, if there is one."""
        if self.target_transform is None:
            return target
        with self.noting(index):
            return self.target_transform(target)

    @contextmanager
    def noting(self, index: int) -> Iterator[None]:
        """Add the sample's name to errors of the user's own functions."""
        try:
            yield
        except Exception as err:
            err.add_note(f"while transforming {self.store.name(index)}")
            raise


class ImageLeaf(Leaf):
    """A dataset whose images and targets the loader reads from their store."""

    def __init__(self, dataset: Any, store: SampleStore, transform: Any, target_transform: Any) -> None:
        super().__init__(dataset, store, read_views(transform))
        self._new_numbers = target_transform if isinstance(target_transform, NewNumbers) else None
        self.target_transform = None if self._new_numbers else target_transform
        self.frame = store.frame

    @property
    @override
    def is_fused(self) -> bool:
        return self.target_transform is None and not self._has_rest

    @property
    @override
    def is_small(self) -> bool:
        return self.store.is_small and not self._has_rest

    @override
    def check(self, index: int) -> None:
        try:
            self.frame(index).pixels()
        except Exception as err:
            self.store.name_in(err, index)
            raise

    def target(self, index: int) -> Any:
        """Return the target of a sample, before its transform."""
        found = self.store.target(index)
        return self._new_numbers(found) if self._new_numbers else found

    def targets(self, indices: Indices) -> Any:
        """Return the targets of samples, before their transform: like `SampleStore.targets`."""
        found = self.store.targets(indices)
        return self._new_numbers.of(found) if self._new_numbers else found


class JointLeaf(Leaf):
    """A dataset with joint transforms of image and target. The dataset makes its samples, but the loader decodes them.

    Args:
        dataset: The user's dataset, maybe in torchvision's wrapper for v2.
    """

    def __init__(self, dataset: Any, inner: Any, plan: JointPlan) -> None:
        records = Records(inner._selection, lambda index: int(inner._positions_of(index)[0]))
        super().__init__(dataset, records, Views((plan.image,)))
        self.plan, self.target_transform = plan, plan.target_transform
        self._plain = copy.copy(dataset)
        self._plain.transform = self._plain.target_transform = self._plain.transforms = None

    @property
    @override
    def is_fused(self) -> bool:
        return self.plan.is_fused and not self._has_rest

    @override
    def check(self, index: int) -> None:
        self.as_plain(self.sample(index)[0], index)

    def sample(self, index: int) -> tuple[Any, Any]:
        """Return the image and the target before all transforms; the image is usually a `Deferred` one."""
        try:
            with deferring():
                image, target = self._plain[index]
        except Exception as err:
            self.store.name_in(err, index)
            raise
        return image, target

    def as_plain(self, image: Any, index: int) -> Any:
        """Return the image of a sample as the dataset would have returned it."""
        try:
            return as_plain(image)
        except Exception as err:
            self.store.name_in(err, index)
            raise


class BatchSource:
    """The record sets and files behind a dataset.

    Attributes:
        leaves: The datasets that it consists of; none if there is a problem.
        problem: Why the loader must ask the dataset itself for samples; "" if it need not.
        kind: The dataset's class, for messages.
    """

    def __init__(self, dataset: Any) -> None:
        self.leaves: list[Leaf] = []
        self.problem = ""
        self.kind = type(dataset).__name__
        self._route = self._read(dataset)
        if self.problem:
            self.leaves = []

    @property
    def is_small(self) -> bool:
        """Whether one thread is faster than several, because images are tiny and Python's lock decides."""
        return bool(self.leaves) and all(leaf.is_small for leaf in self.leaves)

    def locate(self, indices: Indices) -> tuple[NDArray[np.int64], Indices]:
        """Map indices of the dataset to leaf numbers and indices within the leaves."""
        return self._route(indices)

    def _read(self, dataset: Any) -> Callable[[Indices], tuple[NDArray[np.int64], Indices]]:
        if type(dataset) is Subset:
            inner = self._read(dataset.dataset)
            if self.problem:  # its keys may not be numbers
                return inner
            size: int = len(dataset.dataset)  # type: ignore[arg-type]  # it has a length if it is read here
            kind = type(dataset.dataset).__name__
            chosen = indices_of(dataset.indices, kind)
            return lambda indices: inner(
                _checked(chosen[_checked(indices, len(chosen), "Subset")], size, kind, "Subset.indices: ")
            )
        if type(dataset) in (ConcatDataset, Mix):
            return self._read_parts(dataset)
        leaf = leaf_of(dataset)
        if isinstance(leaf, str):
            self.problem = self.problem or leaf
            return lambda indices: (np.zeros_like(indices), indices)
        number, size = len(self.leaves), len(dataset)
        self.leaves.append(leaf)
        kind = type(dataset).__name__
        return lambda indices: (np.full(len(indices), number), _checked(indices, size, kind))

    def _read_parts(self, dataset: ConcatDataset[Any]) -> Callable[[Indices], tuple[NDArray[np.int64], Indices]]:
        parts = [self._read(part) for part in dataset.datasets]
        size = dataset.cumulative_sizes[-1]

        def route(indices: Indices) -> tuple[NDArray[np.int64], Indices]:
            indices = _checked(indices, size, "ConcatDataset")
            numbers, found = np.empty_like(indices), np.empty_like(indices)
            for number, here, within in by_part(dataset, indices):
                numbers[here], found[here] = parts[number](within)
            return numbers, found

        return route


def leaf_of(dataset: Any) -> Leaf | str:
    """Return the leaf of a dataset, or the reason why a loader cannot read it itself."""
    if replaced := pictures.replaced() or items_of(type(dataset)).replaced():
        return replaced
    problem = problem_of(dataset)
    if problem and (joint := joint_leaf(dataset)) is not None:
        return joint
    if isinstance(dataset, ZooDataset):
        if problem:
            return problem
        return ImageLeaf(dataset, Records(dataset._selection), dataset.transform, dataset.target_transform)
    if (meant := has_image_bytes(dataset)) == "":
        transforms = (getattr(dataset, name, None) for name in ("transform", "target_transform"))
        return ImageLeaf(dataset, Own(dataset), *transforms)
    found = meant if meant is not None else read_plain(dataset)
    return found if isinstance(found, str) else ImageLeaf(dataset, *found)


def joint_leaf(dataset: Any) -> JointLeaf | None:
    """Return a leaf for a dataset of this package whose transforms act on image and target; None for any other."""
    inner = dataset._dataset if is_wrapped(dataset) else dataset
    if not isinstance(inner, ZooDataset) or not inner.transforms_pairs:
        return None
    # A user's own __getitem__ may do something after the transforms.
    owner = next(kind for kind in type(inner).__mro__ if "__getitem__" in vars(kind))
    if owner.__module__.partition(".")[0] not in ("recordzoo", "torchvision") or items_of(type(inner)).replaced():
        return None
    plan = None if dataset.transforms is None else read_joint(dataset.transforms)
    return None if plan is None else JointLeaf(dataset, inner, plan)


def problem_of(dataset: Any) -> str:
    """Explain why images and targets cannot be read directly from a record set; "" if they can."""
    if not isinstance(dataset, ZooDataset):
        return f"{type(dataset).__name__} makes its samples itself"
    if problem := dataset.fusion_problem():
        return problem
    blob = dataset._selection.reader.manifest.blobs["image"]
    if blob.encoding == "raw":
        return "" if _are_pixels(dataset._selection.reader) else "its images are stored as numbers that are no pixels"
    return "" if blob.encoding == "image" else f"its images are stored as {blob.encoding}"


def _are_pixels(reader: RecordReader) -> bool:
    blob = reader.manifest.blobs["image"]
    if blob.shape is not None:
        return is_pixels(blob.dtype, blob.shape)
    return is_pixels(blob.dtype, None) and _have_channels(reader)


def _have_channels(reader: RecordReader) -> bool:
    """Whether all raw values are [H, W] or [H, W, C] with C 1, 3 or 4. The answer is kept for each record set."""
    found = _channels.get(reader)
    if found is None:
        shapes = reader.array("image.shape")
        found = shapes.shape[1] == 2 or (
            shapes.shape[1] == 3
            and all(
                bool(np.isin(shapes[start : start + _LOOKED_AT_ONCE, 2], (1, 3, 4)).all())
                for start in range(0, len(shapes), _LOOKED_AT_ONCE)
            )
        )
        _channels[reader] = found
    return found


def _checked(indices: Indices, size: int, kind: str, given_by: str = "") -> Indices:
    """Return indices counted from 0; refuse those that a dataset of this kind and size does not have."""
    found = np.where(indices < 0, indices + size, indices)
    if len(wrong := indices[(found < 0) | (found >= size)]):
        raise SampleIndexError(f"{given_by}there is no sample {wrong[0]} in {kind}, which has {size} samples.")
    return found
