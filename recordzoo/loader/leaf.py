"""One dataset of this package behind a loader: what the loader takes from its record set."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from recordzoo.families.selection import Selection
from recordzoo.images.decode import name_in
from recordzoo.images.deferred import deferring
from recordzoo.images.frames import Frame, open_encoded, open_raw
from recordzoo.loader.keys import Indices
from recordzoo.recipes.jpeg import PLAIN, UNKNOWN, mark_of
from recordzoo.records.reader import RecordReader
from recordzoo.transforms.joint import JointPlan, as_plain
from recordzoo.transforms.plan import Views
from recordzoo.transforms.read import read_views

_SMALL_BYTES = 2048
_LOOKED_AT = 1000

# Any, in all of this module: datasets are somebody's, targets and transforms too.


class Leaf(ABC):
    """A dataset of this package.

    Args:
        dataset: As the user has it.
        inner: The same, or the dataset that torchvision's wrapper for v2 wraps.
        views: What becomes of an image.
    """

    def __init__(self, dataset: Any, inner: Any, views: Views) -> None:
        self.dataset, self.views = dataset, views
        self.reader: RecordReader = inner._selection.reader
        self.is_raw = self.reader.manifest.blobs["image"].encoding == "raw"

    @abstractmethod
    def position(self, index: int) -> int:
        """Return the position of a sample's image in the record set."""

    @property
    def is_fused(self) -> bool:
        """Whether nothing of a sample is left to functions of the user."""
        return not any(plan.rest for plan in self.views.plans)

    @property
    def is_small(self) -> bool:
        """Whether its images are so small that Python's own work on each, under the GIL, is most of it."""
        return False

    @property
    def written(self) -> list[Any]:
        """The transforms as their user wrote them: the same objects as long as nobody exchanges one."""
        return [getattr(self.dataset, name, None) for name in ("transform", "target_transform", "transforms")]

    def name_in(self, err: Exception, index: int) -> None:
        """Name the sample in what opening or decoding it raised, which the caller raises again.

        Raises:
            ImageError: Instead of it, if it says that the image cannot be decoded.
        """
        name_in(err, self.reader.path, _Name(self, index))

    @contextmanager
    def noting(self, index: int) -> Iterator[None]:
        """Note the sample's name on what the person's own functions raise."""
        try:
            yield
        except Exception as err:
            err.add_note(f"while transforming {_Name(self, index)} in {self.reader.path}")
            raise


class ImageLeaf(Leaf):
    """A dataset of which a loader takes images and targets from the record set itself.

    Args:
        dataset: One that `source.problem_of` has no problem with.
    """

    def __init__(self, dataset: Any) -> None:
        super().__init__(dataset, dataset, read_views(dataset.transform))
        self.selection: Selection = dataset._selection
        self._marks = self.reader.marks("image")
        self.target_transform: Callable[[Any], Any] | None = dataset.target_transform

    def position(self, index: int) -> int:
        """See `Leaf`."""
        return self.selection.position(index)

    @property
    def is_fused(self) -> bool:
        """See `Leaf`."""
        return self.target_transform is None and super().is_fused

    @property
    def is_small(self) -> bool:
        """See `Leaf`."""
        lengths = self.reader.lengths("image")[:_LOOKED_AT]
        mean = float(lengths.mean() if len(lengths) else 0)
        return mean < _SMALL_BYTES and not any(plan.rest for plan in self.views.plans)

    def frame(self, index: int) -> Frame:
        """Open the image of a sample.

        Raises:
            ImageError: It cannot be decoded.
            CorruptRecordError: The stored bytes are damaged.
        """
        position = self.selection.position(index)
        if self.is_raw:
            return open_raw(self.reader.value("image", position))
        data = self.reader.read("image", position)
        if self._marks[position] == UNKNOWN:  # in a record set of an earlier version
            self._marks[position] = mark_of(data)
        return open_encoded(data, is_plain=self._marks[position] == PLAIN)

    def target(self, index: int) -> Any:
        """Return the target of a sample, as the dataset gives it."""
        found = self.selection.target(index)
        if self.target_transform is None:
            return found
        with self.noting(index):
            return self.target_transform(found)

    def targets(self, indices: Indices) -> Any:
        """Return the targets of samples: int64 [n] if they are labels that nobody transforms, otherwise a list."""
        if self.target_transform is None and type(self.selection) is Selection:
            return self.selection.targets(indices)
        return list(map(self.target, indices.tolist()))


class JointLeaf(Leaf):
    """A dataset whose transforms take image and target together. It makes its samples itself, but for decoding.

    Args:
        dataset: As the user has it, maybe in torchvision's wrapper for v2.
        inner: The dataset of this package.
        plan: What is known of its transforms.
    """

    def __init__(self, dataset: Any, inner: Any, plan: JointPlan) -> None:
        super().__init__(dataset, inner, Views((plan.image,)))
        self.plan, self._inner = plan, inner
        self._plain = copy.copy(dataset)
        self._plain.transform = self._plain.target_transform = self._plain.transforms = None

    def position(self, index: int) -> int:
        """See `Leaf`."""
        return int(self._inner._positions_of(index)[0])

    @property
    def is_fused(self) -> bool:
        """See `Leaf`."""
        return self.plan.is_fused and super().is_fused

    def sample(self, index: int) -> tuple[Any, Any]:
        """Return the image and the target before all transforms; the image is usually a `Deferred` one.

        Raises:
            ImageError: The dataset needs the pixels, and they cannot be decoded.
            CorruptRecordError: The stored bytes are damaged.
        """
        try:
            with deferring():
                image, target = self._plain[index]
        except Exception as err:
            self.name_in(err, index)
            raise
        return image, target

    def as_plain(self, image: Any, index: int) -> Any:
        """Return the image of a sample as the dataset would have returned it.

        Raises:
            ImageError: It cannot be decoded.
        """
        try:
            return as_plain(image)
        except Exception as err:
            self.name_in(err, index)
            raise


class _Name:
    """A sample's name, looked up only if a message needs it."""

    def __init__(self, leaf: Leaf, index: int) -> None:
        self._leaf, self._index = leaf, index

    def __str__(self) -> str:
        return f"sample {self._index} ({self._leaf.reader.names[self._leaf.position(self._index)]})"
