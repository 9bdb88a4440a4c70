"""Make samples one by one, if some transforms run as written between a compiled prefix and suffix."""

import contextlib
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torchvision import tv_tensors
from typing_extensions import override

from recordzoo.images.frames import ArrayFrame
from recordzoo.loader.maker import BatchOptions, Maker, Memory, collated_targets
from recordzoo.loader.pieces import BatchPiece, Opened, check_sizes, open_views, opened_at_once
from recordzoo.loader.placement import code_of_samples
from recordzoo.loader.rows import Buffers, RowMaker, RowWriter, allocate, with_values
from recordzoo.loader.source import BatchSource, ImageLeaf, JointLeaf
from recordzoo.pixels.render import erase_, to_picture
from recordzoo.transforms.joint import frame_of
from recordzoo.transforms.plan import Plan, Transform
from recordzoo.transforms.read import as_given
from recordzoo.transforms.steps import Size, num_draws

_PART = 0x9E3779B9
"""Distance between the seeds of a sample's views and target."""

Allocator = Callable[[tuple[int, ...], torch.dtype], torch.Tensor]
"""Allocates an uninitialised tensor of a shape and dtype."""

Seeding = Callable[[], contextlib.AbstractContextManager[None]]
"""Returns the context for the user's functions on one sample: seeded generators, or nothing."""

_WRITERS = 16
"""Maximum number of cached row writers, one per image size."""

# Any, here and below: targets and samples are what the dataset has, a batch is what the collate function makes.


class Made(NamedTuple):
    """A piece of a batch.

    Attributes:
        images: Each sample's view, or list of views.
        targets: Each sample's target, before a `target_transform` if `Maker.batch` applies it.
        rows: All images of each view in one tensor, [n, 3, H, W]; None if they are not in one tensor.
        piece: The samples.
    """

    images: list[Any]
    targets: list[Any]
    rows: list[torch.Tensor] | None
    piece: BatchPiece


class SampleMaker(Maker):
    """Makes samples as the dataset would, and collates them."""

    def __init__(self, options: BatchOptions, source: BatchSource, *, runs_own: bool) -> None:
        super().__init__(options, source, runs_own=runs_own)
        memory_format = options.memory_format if options.collates_by_default else torch.contiguous_format
        self._allocate = functools.partial(allocate, memory_format=memory_format)
        self._writers: dict[tuple[int, Size], RowWriter] = {}

    @property
    @override
    def makes_whole(self) -> bool:
        options = self.options
        is_asked = not self.source.leaves and not options.deterministic and not options.is_single
        return is_asked and getattr(options.dataset, "__getitems__", None) is not None

    @override
    def _make(self, piece: BatchPiece, memory: Memory) -> Any:
        """Return samples: a list of them, a `Made`, or what the dataset makes of a whole batch."""
        if self.source.leaves:
            return self._made(piece)
        keys = piece.keys if isinstance(piece.keys, list) else piece.keys.tolist()
        if self.makes_whole:
            return self.options.dataset.__getitems__(keys)
        return [self._taken(piece, number, key) for number, key in enumerate(keys)]

    @override
    def _collated(self, memory: Memory, parts: list[Any]) -> Any:
        """Collate; skip the collate function if the images are already stacked."""
        if self.source.leaves:
            if not self.runs_own and any(leaf.target_transform is not None for leaf in self.source.leaves):
                parts = [
                    part._replace(targets=[self._target(part.piece, *each) for each in enumerate(part.targets)])
                    for part in parts
                ]
            if self.options.stacks and all(part.rows is not None for part in parts):
                views = [_joined(rows) for rows in zip(*(part.rows for part in parts), strict=True)]
                images = views if self.source.leaves[0].views.is_list else views[0]
                return [images, collated_targets([part.targets for part in parts])]
            return self._with_collate_fn([sample for part in parts for sample in _samples(part)], parts)
        return self._with_collate_fn(
            parts[0] if self.makes_whole else [sample for part in parts for sample in part], []
        )

    def _with_collate_fn(self, samples: Any, made: list[Made]) -> Any:
        try:
            return self.options.collate(samples[0] if self.options.is_single else samples)
        except RuntimeError as err:  # torch's message has no names
            if self.options.stacks:
                check_sizes(self.source, [(part.piece, part.images) for part in made], err)
            raise

    def _taken(self, piece: BatchPiece, number: int, key: Any) -> Any:
        with self._seeding(piece, number):
            return self.options.dataset[key]

    def _made(self, piece: BatchPiece) -> Made:
        """Make the images and targets of a piece."""
        kinds = {(leaf.views.is_list, len(leaf.views.plans)) for leaf in self.source.leaves}
        num_views = max(number for _, number in kinds)
        rows = [Rows(len(piece), self._allocate) for _ in range(num_views)]
        images: list[Any] = []
        targets: list[Any] = []
        at_once = 1 if self.runs_own else opened_at_once(self.source)
        for start in range(0, len(piece), at_once):
            numbers = range(start, min(start + at_once, len(piece)))
            opened = [open_views(self.source, piece, number) for number in numbers]
            images += self._images(piece, numbers, opened, rows)
            for number in numbers:
                leaf = self.source.leaves[piece.leaves[number]]
                assert isinstance(leaf, ImageLeaf)
                target = leaf.target(int(piece.inner[number]))
                targets.append(self._target(piece, number, target) if self.runs_own else target)
        whole = [each.whole for each in rows]
        are_alike = len(kinds) == 1 and all(each is not None for each in whole)
        return Made(images, targets, whole if are_alike else None, piece)  # type: ignore[arg-type]  # none is None

    def _target(self, piece: BatchPiece, number: int, target: Any) -> Any:
        """Return the target of a sample after its `target_transform`."""
        leaf = self.source.leaves[piece.leaves[number]]
        with self._seeding(piece, number, -1) if leaf.target_transform is not None else contextlib.nullcontext():
            return leaf.transformed(int(piece.inner[number]), target)

    def _images(self, piece: BatchPiece, numbers: range, opened: list[list[Opened]], rows: list["Rows"]) -> list[Any]:
        """Return the images of some samples of a piece: for each its view, or a list of views."""
        views: list[list[Any]] = [[None] * len(each) for each in opened]
        for view, memory in enumerate(rows):
            plans: dict[int, list[int]] = {}
            for place, each in enumerate(opened):
                if view < len(each):
                    plans.setdefault(id(each[view].plan), []).append(place)
            if len(plans) != 1 or sum(map(len, plans.values())) < len(opened):
                memory.give_up()
            for places in plans.values():
                seedings = [functools.partial(self._seeding, piece, numbers[place], view) for place in places]
                made = self._images_of([opened[place][view] for place in places], seedings, memory)
                for place, image in zip(places, made, strict=True):
                    views[place][view] = image
        return [made if each[0].leaf.views.is_list else made[0] for made, each in zip(views, opened, strict=True)]

    def _images_of(self, opened: list[Opened], seedings: Sequence[Seeding], rows: "Rows") -> list[Any]:
        """Apply all transforms of one plan to images.

        Args:
            seedings: Seed the transforms that run as written, per image.
            rows: Memory for images that end as tensors.
        """
        plan = opened[0].plan
        if plan.is_whole:
            return self._tensors(opened, rows)
        if plan.is_tensor:
            samples: list[Any] = self._tensors(opened, Rows(len(opened), self._allocate))
        else:
            samples = self._pictures(opened)
        if plan.rest:
            rest = plan.rest
            samples = [_through(rest, *each) for each in zip(opened, samples, seedings, strict=True)]
        return samples if plan.ending is None else self._ended(opened, samples, seedings, rows)

    def _tensors(self, opened: list[Opened], rows: "Rows", *, is_ending: bool = False) -> list[torch.Tensor]:
        """Render images of one plan; in one tensor if all have the same size."""
        plan, size = opened[0].plan, opened[0].size
        is_rare = plan.size is None and len(opened) == 1 and not is_ending
        if is_rare or min(size) < 1 or any(each.size != size for each in opened):
            rows.give_up()
            return [as_given(plan, self._finished(each)) for each in opened]
        memory = rows.take(len(opened), size, plan.pointwise.dtype)
        self._writer(plan, size).fill(memory, opened)
        return [as_given(plan, each) for each in memory]

    def _finished(self, image: Opened) -> torch.Tensor:
        """Make one image of any size, contiguous [3, H, W]."""
        made = with_values(image.plan, image.render(self.options.precision).contiguous())
        return erase_(made, image.actions)

    def _pictures(self, opened: list[Opened]) -> list[Image.Image]:
        plan = opened[0].plan
        if plan.size is None or min(plan.size) < 1:
            return [to_picture(each.render(self.options.precision)) for each in opened]
        memory = torch.empty(
            (len(opened), 3, *plan.size), dtype=torch.uint8, memory_format=torch.channels_last, device="cpu"
        )
        self._writer(plan, plan.size).fill(memory, opened)
        return [to_picture(each) for each in memory]

    def _writer(self, plan: Plan, size: Size) -> RowWriter:
        """Return the row writer of a plan and size; a few are kept."""
        found = self._writers.get((id(plan), size))
        if found is None:
            if len(self._writers) >= _WRITERS:
                self._writers = {}
            found = self._writers[id(plan), size] = RowWriter(plan, size, self.options.precision, plan.pointwise)
        return found

    def _ended(self, opened: list[Opened], samples: list[Any], seedings: Sequence[Seeding], rows: "Rows") -> list[Any]:
        """Apply the compiled suffix; call its transforms instead where the samples are not RGB images."""
        plan = opened[0].plan
        assert plan.ending is not None
        frames = [_frame(plan, sample) for sample in samples]
        images = [None if frame is None else each.again(frame) for each, frame in zip(opened, frames, strict=True)]
        known = [image for image in images if image is not None]
        if len(known) == len(images):
            return self._tensors(known, rows, is_ending=True)
        rows.give_up()
        made: list[Any] = []
        for image, each, sample, seeding in zip(images, opened, samples, seedings, strict=True):
            if image is None:
                made.append(_through(plan.ending.fused, each, sample, seeding))
            else:
                made += self._tensors([image], rows)
        return made

    def _seeding(self, piece: BatchPiece, number: int, part: int = 0) -> contextlib.AbstractContextManager[None]:
        """Return the context for one part of a sample: the number of a view, or -1 for the target."""
        return self.options.seeding((int(piece.seeds[number]) + part * _PART) % (1 << 32))


class JointMaker(SampleMaker):
    """A `SampleMaker` for datasets with joint transforms of image and target."""

    @override
    def _made(self, piece: BatchPiece) -> Made:
        """Make the samples of a piece; images of one size share one tensor."""
        together = Rows(len(piece), self._allocate)
        samples = [self._sample(piece, number, together) for number in range(len(piece))]
        return Made([image for image, _ in samples], [target for _, target in samples], None, piece)

    def _sample(self, piece: BatchPiece, number: int, together: "Rows") -> tuple[Any, Any]:
        leaf, index = self.source.leaves[piece.leaves[number]], int(piece.inner[number])
        if not isinstance(leaf, JointLeaf):
            made = super()._made(piece.of([number]))
            return made.images[0], made.targets[0]
        image, target = leaf.sample(index)
        plan, draws = leaf.plan, piece.draws[number].tolist()
        seeding = functools.partial(self._seeding, piece, number)
        frame = frame_of(image)
        if frame is None or not plan.takes(target, (frame.height, frame.width)):
            image = leaf.as_plain(image, index)
            with seeding(), leaf.noting(index):
                if plan.is_joint:
                    image, target = plan.transforms(image, target)
                else:
                    image = plan.transforms.transform(image)
        else:
            with self._seeding(piece, number, -1), leaf.noting(index):  # as `SampleMaker` seeds a target
                actions, target = plan.decide(frame, target, draws)
            opened = Opened(leaf, index, plan.image, frame, actions, draws[num_draws(plan.image.steps) :])
            (image,) = self._images_of([opened], [seeding], together)
            with seeding(), leaf.noting(index):
                for transform in plan.rest:
                    image, target = transform(image, target)
        return image, self._target(piece, number, target) if self.runs_own else target


class Rows:
    """Memory for the images of one view of a piece: one tensor, as long as sizes and dtypes are equal."""

    def __init__(self, count: int, allocate: Allocator) -> None:
        self._count, self._allocate = count, allocate
        self._taken, self._tensor = 0, torch.empty(0)
        self._is_given_up = False

    def take(self, count: int, size: Size, dtype: torch.dtype) -> torch.Tensor:
        """Return memory for the next images, [count, 3, H, W]."""
        if self._taken == 0 and not self._is_given_up:
            self._tensor = self._allocate((self._count, 3, *size), dtype)
        if self._is_given_up or self._tensor.shape[2:] != size or self._tensor.dtype is not dtype:
            self.give_up()
            return torch.empty((count, 3, *size), dtype=dtype, device="cpu")
        self._taken += count
        return self._tensor[self._taken - count : self._taken]

    def give_up(self) -> None:
        """Allocate each further image on its own."""
        self._is_given_up = True

    @property
    def whole(self) -> torch.Tensor | None:
        """The tensor of all images in order; None if some were allocated on their own."""
        return self._tensor if self._taken == self._count and not self._is_given_up else None


def _joined(rows: Sequence[torch.Tensor]) -> torch.Tensor:
    """Concatenate the images of pieces; a single piece is not copied: it may be in shared memory."""
    return rows[0] if len(rows) == 1 else torch.cat(list(rows))


def _samples(part: Made) -> list[Any]:
    return list(zip(part.images, part.targets, strict=True))


def _through(transforms: Iterable[Transform], opened: Opened, sample: Any, seeding: Seeding) -> Any:
    """Call transforms as written."""
    with seeding(), opened.leaf.noting(opened.index):
        for transform in transforms:
            sample = transform(sample)
    return sample


def _frame(plan: Plan, sample: Any) -> ArrayFrame | None:
    """Return the pixels that the user's transforms returned; None if they are not what the suffix expects."""
    if not plan.is_tensor:
        is_known = isinstance(sample, Image.Image) and sample.mode == "RGB"
        return ArrayFrame(np.asarray(sample)) if is_known else None
    kind = tv_tensors.Image if plan.is_image else torch.Tensor
    if type(sample) is not kind or sample.dtype is not torch.uint8 or sample.ndim != 3 or len(sample) != 3:
        return None
    return ArrayFrame(np.ascontiguousarray(sample.as_subclass(torch.Tensor).permute(1, 2, 0).cpu().numpy()))


def maker_of(options: BatchOptions, kept: list[Buffers] | None = None) -> Maker:
    """Return the maker of the batches of a dataset.

    Args:
        options: The dataset, and how batches are made of it.
        kept: Memory of batches of an earlier epoch.
    """
    source = BatchSource(options.dataset)
    runs_own = not all(each.is_safe for each in code_of_samples(source))
    if _are_rows(options, source):
        return RowMaker(options, source, runs_own=runs_own, kept=kept)
    is_joint = any(isinstance(leaf, JointLeaf) for leaf in source.leaves)
    return (JointMaker if is_joint else SampleMaker)(options, source, runs_own=runs_own)


def _are_rows(options: BatchOptions, source: BatchSource) -> bool:
    """Whether images can be made directly into the batch: all fused, one size and dtype, collated by torch."""
    leaves = [leaf for leaf in source.leaves if isinstance(leaf, ImageLeaf)]
    if not leaves or len(leaves) < len(source.leaves):
        return False
    views = [leaf.views for leaf in leaves]
    kinds = {
        (each.is_list, *((plan.size, plan.pointwise.operations, plan.erases) for plan in each.plans)) for each in views
    }
    is_random = options.deterministic and any(leaf.target_transform is not None for leaf in leaves)
    return (
        not is_random
        and options.stacks
        and len(kinds) == 1
        and all(each.is_whole for each in views)
        and all(plan.size is not None for plan in views[0].plans)
    )
