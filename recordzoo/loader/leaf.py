"""A leaf: one dataset of a loader, with its store of images and targets and the plan of its transforms."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from typing_extensions import override

from recordzoo.images.frames import deferring
from recordzoo.loader.order import Indices
from recordzoo.loader.stores import Records, SampleStore
from recordzoo.sampling.labels import NewNumbers
from recordzoo.transforms.joint import JointPlan, as_plain
from recordzoo.transforms.plan import Views
from recordzoo.transforms.read import read_views

# Any, in all of this module: datasets, targets and transforms have the user's types.


class Leaf(ABC):
    """A dataset whose images a loader decodes."""

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
        self.target_transform: Callable[[Any], Any] | None = None if self._new_numbers else target_transform
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
        """Return the target of a sample, as the dataset returns it."""
        found = self.store.target(index)
        if self._new_numbers:
            return self._new_numbers(found)
        if self.target_transform is None:
            return found
        with self.noting(index):
            return self.target_transform(found)

    def targets(self, indices: Indices) -> Any:
        """Return the targets of samples: like `SampleStore.targets` without a transform, otherwise a list."""
        if self._new_numbers:
            return self._new_numbers.of(self.store.targets(indices))
        if self.target_transform is None:
            return self.store.targets(indices)
        return list(map(self.target, indices.tolist()))


class JointLeaf(Leaf):
    """A dataset with joint transforms of image and target. The dataset makes its samples, but the loader decodes them.

    Args:
        dataset: The user's dataset, maybe in torchvision's wrapper for v2.
    """

    def __init__(self, dataset: Any, inner: Any, plan: JointPlan) -> None:
        records = Records(inner._selection, lambda index: int(inner._positions_of(index)[0]))
        super().__init__(dataset, records, Views((plan.image,)))
        self.plan = plan
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
