"""The leaves of a dataset: those that it consists of, each with its store of images and the plan of its transforms.

They are found through any `Subset` and `ConcatDataset` around them.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import ConcatDataset, Subset
from typing_extensions import override

from recordzoo.errors import SampleIndexError
from recordzoo.families.base import BatchSource, ZooDataset
from recordzoo.families.selection import Selection
from recordzoo.images.decode import deferring
from recordzoo.loader.epochs import Indices, indices_of
from recordzoo.loader.joint import JointPlan, as_plain, is_wrapped, read_joint
from recordzoo.loader.parts import Mix, NewNumbers, by_part
from recordzoo.loader.plan import Views, items_of, pictures
from recordzoo.loader.small import only_moves, sized
from recordzoo.loader.stores import (
    Own,
    Records,
    SampleStore,
    has_image_bytes,
    makes_samples,
    read_array,
    read_plain,
)
from recordzoo.loader.table import read_views

# Any, in all of this module: datasets, samples, targets and transforms have the user's types.

NOT_RGB = "its images are not RGB"


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
        return [
            *(getattr(self.dataset, name, None) for name in ("transform", "target_transform", "transforms")),
            *(vars(self.dataset).get(name) for name in ("data", "targets", "labels")),
        ]

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
        super().__init__(dataset, store, sized(read_views(transform), store.shape))
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

    @property
    def is_gray(self) -> bool:
        """Whether images have one channel."""
        return self.store.shape is not None and self.store.shape.channels == 1

    @property
    def only_moves(self) -> bool:
        """Whether the images are small, and are only cropped and flipped."""
        shape = self.store.shape
        return shape is not None and all(only_moves(plan, shape) for plan in self.views.plans)

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

    def __init__(self, dataset: Any, selection: Selection, plan: JointPlan) -> None:
        super().__init__(dataset, Records(selection), Views((plan.image,)))
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


class Source:
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

    def take_samples(self, problem: str) -> None:
        """Give up the leaves: the loader asks the dataset for samples."""
        self.leaves, self.problem = [], problem

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
    inner = dataset._dataset if is_wrapped(dataset) else dataset
    if isinstance(inner, ZooDataset):
        found = inner.batch_source()
        problem = found.problem if inner is dataset else makes_samples(dataset)
        if problem or found.selection is None:
            return joint_leaf(dataset, inner, found) or problem
        return image_leaf(dataset, Records(found.selection, is_gray=found.is_gray))
    if (meant := has_image_bytes(dataset)) == "":
        return image_leaf(dataset, Own(dataset))
    if (array := read_array(dataset)) is not None:
        return image_leaf(dataset, array)
    plain = meant if meant is not None else read_plain(dataset)
    return plain if isinstance(plain, str) else ImageLeaf(dataset, *plain)


def image_leaf(dataset: Any, store: SampleStore) -> ImageLeaf | str:
    """Return the leaf of a dataset and its store; images of one channel must be those of a `MovedWriter`."""
    transforms = (getattr(dataset, name, None) for name in ("transform", "target_transform"))
    leaf = ImageLeaf(dataset, store, *transforms)
    return NOT_RGB if leaf.is_gray and not leaf.only_moves else leaf


def joint_leaf(dataset: Any, inner: ZooDataset, found: BatchSource) -> JointLeaf | None:
    """Return a leaf for a dataset of this package whose transforms act on image and target; None for any other."""
    if found.selection is None or not found.is_of_pairs:
        return None
    # A user's own __getitem__ may do something after the transforms.
    owner = next(kind for kind in type(inner).__mro__ if "__getitem__" in vars(kind))
    if owner.__module__.partition(".")[0] not in ("recordzoo", "torchvision") or items_of(type(inner)).replaced():
        return None
    plan = None if dataset.transforms is None else read_joint(dataset.transforms)
    return None if plan is None else JointLeaf(dataset, found.selection, plan)


def _checked(indices: Indices, size: int, kind: str, given_by: str = "") -> Indices:
    """Return indices counted from 0; refuse those that a dataset of this kind and size does not have."""
    found = np.where(indices < 0, indices + size, indices)
    if len(wrong := indices[(found < 0) | (found >= size)]):
        raise SampleIndexError(f"{given_by}there is no sample {wrong[0]} in {kind}, which has {size} samples.")
    return found
