"""The makers of batches: rows of one tensor, or samples that are collated.

`RowMaker` renders images into the batch. `SampleMaker` makes samples one by one, if some transforms run as written,
maybe between a compiled prefix and suffix; `JointMaker`, those with joint transforms of image and target.
"""

import functools
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch.utils.data import get_worker_info
from torchvision import tv_tensors
from typing_extensions import override

from recordzoo.images.decode import ArrayFrame, Frame
from recordzoo.loader.compiled import Compiled, compiled_code, compiled_now
from recordzoo.loader.making import (
    BatchOptions,
    BatchPiece,
    Maker,
    Memory,
    Opened,
    check_sizes,
    collated_targets,
    open_views,
    opened_at_once,
)
from recordzoo.loader.placement import code_of_samples
from recordzoo.loader.plan import Plan, Pointwise, Size, Transform
from recordzoo.loader.render import MovedWriter, Precision, RowRenderer, erase, to_picture
from recordzoo.loader.source import NOT_RGB, JointLeaf, Source, frame_of
from recordzoo.loader.table import as_given

# Any, in all of this module: targets and samples are what the dataset has, a batch is what the collate function makes.

_WRITERS = 16
"""Maximum number of cached row writers, one per image size."""


class Buffers:
    """Provides tensors for batches of images, and reuses their memory when the last view of a tensor is gone.

    Args:
        shape, dtype, memory_format: Those of one image.
        pinned: Use page-locked memory, for copies to a CUDA device. torch manages and reuses it.
        limit: Maximum number of free tensors kept per length.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        memory_format: torch.memory_format,
        *,
        pinned: bool,
        limit: int,
    ) -> None:
        self._shape, self._dtype, self._format = shape, dtype, memory_format
        self._pinned, self._limit = pinned, limit
        self._free: dict[int, list[torch.Tensor]] = {}
        self._lock = threading.RLock()  # the garbage collector may return memory within `take`

    def take(self, count: int) -> torch.Tensor:
        """Return an uninitialised tensor [count, *shape]."""
        # torch frees pinned memory only after pending async copies finish. A batch that a worker sent is still in use.
        if self._pinned or get_worker_info() is not None:
            return self._new(count)
        with self._lock:
            kept = self._free.get(count)
            memory = kept.pop() if kept else None
        if memory is None:
            memory = self._new(count)
        # A tensor made from an array keeps the array alive as long as any view of the tensor.
        array = memory.numpy()
        weakref.finalize(array, self._give_back, memory).atexit = False
        return torch.from_numpy(array)

    def _new(self, count: int) -> torch.Tensor:
        return allocate((count, *self._shape), self._dtype, self._format, pinned=self._pinned)

    def _give_back(self, memory: torch.Tensor) -> None:
        with self._lock:
            kept = self._free.setdefault(len(memory), [])
            if len(kept) < self._limit:
                kept.append(memory)


def allocate(
    shape: tuple[int, ...], dtype: torch.dtype, memory_format: torch.memory_format, *, pinned: bool = False
) -> torch.Tensor:
    """Return an uninitialised tensor [N, 3, H, W]; in a worker process, in memory shared with the parent.

    Args:
        pinned: Use page-locked memory, except in a worker process.
    """
    if get_worker_info() is None:
        return torch.empty(shape, dtype=dtype, memory_format=memory_format, pin_memory=pinned, device="cpu")
    like = torch.empty(shape, dtype=dtype, memory_format=memory_format, device="meta")
    # As default_collate does; otherwise the batch would be copied again.
    storage = torch.UntypedStorage._new_shared(like.numel() * dtype.itemsize)  # type: ignore[no-untyped-call]
    return torch.empty(0, dtype=dtype, device="cpu").set_(storage, 0, like.shape, like.stride())


class RowWriter:
    """Renders images of one plan and one size, with compiled code if possible, otherwise with `render`.

    Args:
        pointwise: Operations on the values; None: keep bytes and erase nothing.
    """

    def __init__(self, plan: Plan, size: Size, precision: Precision, pointwise: Pointwise | None) -> None:
        self._size, self._precision, self._pointwise = size, precision, pointwise
        self._erases = plan.erases  # in its last step
        is_exact = all(step.is_exact for step in plan.steps)
        waits = precision == "fast" or not is_exact  # otherwise Pillow gives the same pixels until then
        self._renderer = self._renderer_of(compiled_code(waits=waits))

    def _renderer_of(self, found: Compiled | None) -> RowRenderer | None:
        return None if found is None else RowRenderer(*self._size, self._pointwise, self._precision, found)

    def fill(self, rows: torch.Tensor, images: Sequence[Opened]) -> None:
        """Render images to rows.

        Args:
            rows: [n, 3, height, width], contiguous or channels-last.
            images: n images, at most `OPENED_AT_ONCE`: the last ones opened in this thread.
        """
        left: Iterable[int] = range(len(images))
        if self._renderer is None:
            self._renderer = self._renderer_of(compiled_now())
        if self._renderer is not None:
            left = self._renderer.make([(image.frame, image.actions) for image in images], rows)
        for number in left:
            rows[number].copy_(images[number].render(self._precision))
            if self._pointwise is not None:
                self._pointwise.apply_(rows[number])
        if self._erases:
            for row, image in zip(rows.numpy(), images, strict=True):
                erase(row, image.actions)


class RowMaker(Maker):
    """Renders images to rows of one tensor per view. All transforms are fused, and all images have the same size."""

    def __init__(self, options: BatchOptions, source: Source, *, runs_own: bool) -> None:
        super().__init__(options, source, runs_own=runs_own)
        self._leaves = source.leaves
        self._views = source.leaves[0].views
        self._channels = 1 if self._leaves[0].is_gray else 3
        self._buffers: list[Buffers] = []  # of each view
        self._writers: list[RowWriter] = []
        self._pointwise: list[Pointwise | None] = []  # of each view; None: the device computes the values
        for plan in self._views.plans:
            assert plan.size is not None
            # Boxes are erased in the finished values. `_arrived` expects three channels.
            is_here = options.device.type == "cpu" or plan.erases or self._channels == 1
            shape, dtype = (self._channels, *plan.size), plan.pointwise.dtype if is_here else torch.uint8
            memory_format, pinned = options.memory_format, options.is_pinned
            self._buffers.append(Buffers(shape, dtype, memory_format, pinned=pinned, limit=options.num_kept))
            pointwise = plan.pointwise if dtype is plan.pointwise.dtype else None
            self._writers.append(RowWriter(plan, plan.size, options.precision, pointwise))
            self._pointwise.append(pointwise)
        self._moved: list[list[MovedWriter]] = []
        if all(leaf.only_moves for leaf in self._leaves):
            for leaf in self._leaves:
                assert leaf.shape is not None
                plans = zip(leaf.views.plans, self._pointwise, strict=True)
                self._moved.append([MovedWriter(plan, leaf.shape, pointwise) for plan, pointwise in plans])

    @override
    def memory(self, count: int) -> Memory:
        return [each.take(count) for each in self._buffers]

    @override
    def _make(self, piece: BatchPiece, memory: Memory) -> Any:
        """Fill rows; return targets, or the piece if `_collated` transforms them."""
        if self._moved:
            self._move(piece, memory)
            return self._whole_targets(piece)
        at_once = opened_at_once(self.source)
        targets: list[Any] = []
        for start in range(0, len(piece), at_once):
            numbers = range(start, min(start + at_once, len(piece)))
            opened = []
            for number in numbers:
                opened.append(open_views(self.source, piece, number))
                if self.runs_own:
                    targets.append(self._target(piece, number))
            for writer, tensor, images in zip(self._writers, memory, zip(*opened, strict=True), strict=True):
                writer.fill(tensor[piece.start + start : piece.start + numbers.stop], images)
        return targets if self.runs_own else self._whole_targets(piece)

    def _move(self, piece: BatchPiece, memory: Memory) -> None:
        """Fill rows with images that are only cropped and flipped."""
        for number, (leaf, writers) in enumerate(zip(self._leaves, self._moved, strict=True)):
            places = np.flatnonzero(piece.leaves == number)
            if len(places):
                pixels, draws = leaf.stack(piece.inner[places]), piece.draws[places]
                for plan, writer, images in zip(leaf.views.plans, writers, memory, strict=True):
                    writer.fill(images, places + piece.start, pixels, draws[:, : plan.num_draws])
                    draws = draws[:, plan.num_draws :]

    def _whole_targets(self, piece: BatchPiece) -> Any:
        """Return the targets of a piece, or the piece if `_collated` transforms them."""
        if any(leaf.target_transform is not None for leaf in self._leaves):
            return piece
        if len(self._leaves) == 1:
            return self._leaves[0].targets(piece.inner)
        return self._targets(piece)

    @override
    def _collated(self, memory: Memory, parts: list[Any]) -> Any:
        """Return [images, targets]; with several views, images is a list of tensors."""
        targets = [self._targets(part) if isinstance(part, BatchPiece) else part for part in parts]
        return [memory if self._views.is_list else memory[0], collated_targets(targets)]

    def _targets(self, piece: BatchPiece) -> list[Any]:
        """Return the targets of a piece, after their transforms."""
        return [self._target(piece, number) for number in range(len(piece))]

    def _target(self, piece: BatchPiece, number: int) -> Any:
        leaf, index = self._leaves[piece.leaves[number]], int(piece.inner[number])
        return leaf.transformed(index, leaf.target(index))

    @override
    def _arrived(self, batch: Any, seed: int) -> Any:
        """Convert and normalise images that were sent as bytes."""
        images, targets = batch
        views = images if self._views.is_list else [images]
        done = [
            view if pointwise is not None else with_values(plan, view)
            for view, plan, pointwise in zip(views, self._views.plans, self._pointwise, strict=True)
        ]
        return super()._arrived([done if self._views.is_list else done[0], targets], seed)


def with_values(plan: Plan, images: torch.Tensor) -> torch.Tensor:
    """Convert and normalise uint8 images as the plan says; a copy, if it says anything."""
    if plan.pointwise.operations is None:
        return images
    return plan.pointwise.apply_(images.to(torch.float32))


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

    def __init__(self, options: BatchOptions, source: Source, *, runs_own: bool) -> None:
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
        return [self._taken(key, piece.seed(number)) for number, key in enumerate(keys)]

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
                pieces = zip(*(part.rows for part in parts), strict=True)
                # A single piece is not copied: it may be in shared memory.
                views = [rows[0] if len(rows) == 1 else torch.cat(rows) for rows in pieces]
                images = views if self.source.leaves[0].views.is_list else views[0]
                return [images, collated_targets([part.targets for part in parts])]
            samples = [sample for part in parts for sample in zip(part.images, part.targets, strict=True)]
            return self._with_collate_fn(samples, parts)
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

    def _taken(self, key: Any, seed: int) -> Any:
        with self.options.seeding(seed):
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
            images += self._images(opened, rows)
            for number in numbers:
                leaf = self.source.leaves[piece.leaves[number]]
                target = leaf.target(int(piece.inner[number]))
                targets.append(self._target(piece, number, target) if self.runs_own else target)
        whole = [each.whole for each in rows]
        are_alike = len(kinds) == 1 and all(each is not None for each in whole)
        return Made(images, targets, whole if are_alike else None, piece)  # type: ignore[arg-type]  # none is None

    def _target(self, piece: BatchPiece, number: int, target: Any) -> Any:
        """Return the target of a sample after its `target_transform`."""
        leaf = self.source.leaves[piece.leaves[number]]
        if leaf.target_transform is None:
            return target
        with self.options.seeding(piece.seed(number, -1)):
            return leaf.transformed(int(piece.inner[number]), target)

    def _images(self, opened: list[list[Opened]], rows: list["Rows"]) -> list[Any]:
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
                made = self._images_of([opened[place][view] for place in places], memory)
                for place, image in zip(places, made, strict=True):
                    views[place][view] = image
        return [made if each[0].leaf.views.is_list else made[0] for made, each in zip(views, opened, strict=True)]

    def _images_of(self, opened: list[Opened], rows: "Rows") -> list[Any]:
        """Apply all transforms of one plan to images; those that end as tensors are in `rows`."""
        plan = opened[0].plan
        if plan.is_whole:
            return self._tensors(opened, rows)
        if plan.is_tensor:
            samples: list[Any] = self._tensors(opened, Rows(len(opened), self._allocate))
        else:
            samples = self._pictures(opened)
        if plan.rest:
            samples = [self._through(plan.rest, *each) for each in zip(opened, samples, strict=True)]
        return samples if plan.ending is None else self._ended(opened, samples, rows)

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
        if image.plan.erases:
            erase(made.numpy(), image.actions)
        return made

    def _pictures(self, opened: list[Opened]) -> list[Image.Image]:
        plan = opened[0].plan
        if plan.size is None or min(plan.size) < 1:
            return [each.picture(self.options.precision) for each in opened]
        shape = len(opened), 3, *plan.size
        memory = torch.empty(shape, dtype=torch.uint8, memory_format=torch.channels_last, device="cpu")
        self._writer(plan, plan.size).fill(memory, opened)
        pictures = [to_picture(each) for each in memory]
        for picture, each in zip(pictures, opened, strict=True):
            picture.info = each.info()  # `ImageOps.exif_transpose` and others look there
        return pictures

    def _writer(self, plan: Plan, size: Size) -> RowWriter:
        """Return the row writer of a plan and size; a few are kept."""
        found = self._writers.get((id(plan), size))
        if found is None:
            if len(self._writers) >= _WRITERS:
                self._writers = {}
            found = self._writers[id(plan), size] = RowWriter(plan, size, self.options.precision, plan.pointwise)
        return found

    def _ended(self, opened: list[Opened], samples: list[Any], rows: "Rows") -> list[Any]:
        """Apply the compiled suffix; call its transforms instead where the samples are not RGB images."""
        plan = opened[0].plan
        assert plan.ending is not None
        frames = [known_frame(plan, sample) for sample in samples]
        images = [None if frame is None else each.again(frame) for each, frame in zip(opened, frames, strict=True)]
        known = [image for image in images if image is not None]
        if len(known) == len(images):
            return self._tensors(known, rows, is_ending=True)
        rows.give_up()
        made: list[Any] = []
        for image, each, sample in zip(images, opened, samples, strict=True):
            if image is None:
                made.append(self._through(plan.ending.fused, each, sample))
            else:
                made += self._tensors([image], rows)
        return made

    def _through(self, transforms: Iterable[Transform], opened: Opened, sample: Any) -> Any:
        """Call transforms as written."""
        with self.options.seeding(opened.seed), opened.leaf.noting(opened.index):
            for transform in transforms:
                sample = transform(sample)
        return sample


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
        seed, frame = piece.seed(number), frame_of(image)
        if frame is None or not plan.takes(target, (frame.height, frame.width)):
            image = leaf.as_plain(image, index)
            with self.options.seeding(seed), leaf.noting(index):
                if plan.image.is_joint:
                    image, target = plan.transforms(image, target)
                else:
                    image = plan.transforms.transform(image)
        else:
            with self.options.seeding(piece.seed(number, -1)), leaf.noting(index):  # as `SampleMaker` seeds a target
                actions, target = plan.decide(frame, target, draws)
            opened = Opened(leaf, index, plan.image, frame, actions, draws[plan.image.num_own_draws :], seed)
            (image,) = self._images_of([opened], together)
            with self.options.seeding(seed), leaf.noting(index):
                for transform in plan.rest:
                    image, target = transform(image, target)
        return image, self._target(piece, number, target) if self.runs_own else target


class Rows:
    """Memory for the images of one view of a piece: one tensor, as long as sizes and dtypes are equal."""

    def __init__(self, count: int, allocate: Callable[[tuple[int, ...], torch.dtype], torch.Tensor]) -> None:
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


def known_frame(plan: Plan, sample: Any) -> Frame | None:
    """Return the pixels that the user's transforms returned; None if they are not what the suffix expects."""
    if not plan.is_tensor:
        return frame_of(sample)
    kind = tv_tensors.Image if plan.is_image else torch.Tensor
    if type(sample) is not kind or sample.dtype is not torch.uint8 or sample.ndim != 3 or len(sample) != 3:
        return None
    return ArrayFrame(np.ascontiguousarray(sample.as_subclass(torch.Tensor).permute(1, 2, 0).cpu().numpy()))


def maker_of(options: BatchOptions) -> Maker:
    """Return the maker of the batches of a dataset."""
    source = Source(options.dataset)
    if any(leaf.is_gray for leaf in source.leaves) and not _are_rows(options, source):
        source.leaves, source.problem = [], f"{NOT_RGB}, and do not go into one tensor"
    runs_own = not all(each.is_safe for each in code_of_samples(source))
    if _are_rows(options, source):
        return RowMaker(options, source, runs_own=runs_own)
    is_joint = any(isinstance(leaf, JointLeaf) for leaf in source.leaves)
    return (JointMaker if is_joint else SampleMaker)(options, source, runs_own=runs_own)


def _are_rows(options: BatchOptions, source: Source) -> bool:
    """Whether images can be made directly into the batch: all fused, one size and dtype, collated by torch."""
    leaves = source.leaves
    if not leaves or any(isinstance(leaf, JointLeaf) for leaf in leaves):
        return False
    kinds = {
        (
            leaf.is_gray,
            leaf.views.is_list,
            *((plan.size, plan.pointwise.operations, plan.erases) for plan in leaf.views.plans),
        )
        for leaf in leaves
    }
    plans = [plan for leaf in leaves for plan in leaf.views.plans]
    is_random = options.deterministic and any(leaf.target_transform is not None for leaf in leaves)
    are_alike = len(kinds) == 1 and all(plan.is_whole and plan.size is not None for plan in plans)
    return not is_random and options.stacks and are_alike
