"""Make a batch as rows of its tensors: their memory, the images that are rendered to them, and `RowMaker`.

A batch of 64 images of 224 by 224 takes 38 MB in float32: fresh memory costs 9,400 page faults per batch. So memory is
reused when nothing refers to the batch any more.
"""

import threading
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.utils.data import get_worker_info
from typing_extensions import override

from recordzoo.loader.maker import BatchOptions, Maker, Memory, collated_targets
from recordzoo.loader.pieces import BatchPiece, Opened, open_views, opened_at_once
from recordzoo.loader.source import BatchSource, ImageLeaf
from recordzoo.pixels.compiled import Compiled
from recordzoo.pixels.compiling import compiled_code, compiled_now
from recordzoo.pixels.render import Precision, erase_
from recordzoo.pixels.rows import RowRenderer
from recordzoo.transforms.plan import Plan, Pointwise
from recordzoo.transforms.steps import Size


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
        self.shape, self.dtype, self._format = shape, dtype, memory_format
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
        return allocate((count, *self.shape), self.dtype, self._format, pinned=self._pinned)

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
        self._changes = not plan.is_geometric
        waits = precision == "fast" or not plan.is_exact  # otherwise Pillow gives the same pixels until then
        self._renderer = self._renderer_of(compiled_code(changes=self._changes, waits=waits))

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
            self._renderer = self._renderer_of(compiled_now(changes=self._changes))
        if self._renderer is not None:
            left = self._renderer.make([(image.frame, image.actions) for image in images], rows)
        for number in left:
            rows[number].copy_(images[number].render(self._precision))
            if self._pointwise is not None:
                self._pointwise.apply_(rows[number])
                erase_(rows[number], images[number].actions)


class RowMaker(Maker):
    """Renders images to rows of one tensor per view. All transforms are fused, and all images have the same size.

    Args:
        options, source, runs_own: As in `Maker`.
        kept: Memory of batches of an earlier epoch, per view.

    Attributes:
        buffers: The memory of batches, per view.
    """

    # Any, here and below: targets are what the dataset has, a batch is what the collate function makes.

    def __init__(
        self, options: BatchOptions, source: BatchSource, *, runs_own: bool, kept: list[Buffers] | None = None
    ) -> None:
        super().__init__(options, source, runs_own=runs_own)
        self._leaves = [leaf for leaf in source.leaves if isinstance(leaf, ImageLeaf)]  # all are
        self._views = source.leaves[0].views
        self.buffers: list[Buffers] = []
        self._is_finished = []  # otherwise the device computes the values
        self._writers = []
        for number, plan in enumerate(self._views.plans):
            assert plan.size is not None
            is_here = options.device.type == "cpu" or plan.erases  # boxes are erased in the finished values
            shape, dtype = (3, *plan.size), plan.pointwise.dtype if is_here else torch.uint8
            buffers = kept[number] if kept is not None and len(kept) > number else None
            if buffers is None or (buffers.shape, buffers.dtype) != (shape, dtype):
                memory_format, pinned = options.memory_format, options.is_pinned
                buffers = Buffers(shape, dtype, memory_format, pinned=pinned, limit=options.num_kept)
            self.buffers.append(buffers)
            is_finished = dtype is plan.pointwise.dtype
            self._is_finished.append(is_finished)
            pointwise = plan.pointwise if is_finished else None
            self._writers.append(RowWriter(plan, plan.size, options.precision, pointwise))

    @override
    def memory(self, count: int) -> Memory:
        return Memory(lambda: [each.take(count) for each in self.buffers])

    @override
    def _make(self, piece: BatchPiece, memory: Memory) -> Any:
        """Fill rows; return targets, or the piece if `_collated` transforms them."""
        at_once = opened_at_once(self.source)
        targets: list[Any] = []
        for start in range(0, len(piece), at_once):
            numbers = range(start, min(start + at_once, len(piece)))
            opened = []
            for number in numbers:
                opened.append(open_views(self.source, piece, number))
                if self.runs_own:
                    targets.append(self._target(piece, number))
            for writer, tensor, images in zip(self._writers, memory.tensors, zip(*opened, strict=True), strict=True):
                writer.fill(tensor[piece.start + start : piece.start + numbers.stop], images)
        if self.runs_own:
            return targets
        if any(leaf.target_transform is not None for leaf in self._leaves):
            return piece
        if len(self._leaves) == 1:
            return self._leaves[0].targets(piece.inner)
        return self._targets(piece)

    @override
    def _collated(self, memory: Memory, parts: list[Any]) -> Any:
        """Return [images, targets]; with several views, images is a list of tensors."""
        targets = [self._targets(part) if isinstance(part, BatchPiece) else part for part in parts]
        return [list(memory.tensors) if self._views.is_list else memory.tensors[0], collated_targets(targets)]

    def _targets(self, piece: BatchPiece) -> list[Any]:
        """Return the targets of a piece, after their transforms."""
        return [self._target(piece, number) for number in range(len(piece))]

    def _target(self, piece: BatchPiece, number: int) -> Any:
        leaf, index = self._leaves[piece.leaves[number]], int(piece.inner[number])
        return leaf.transformed(index, leaf.target(index))

    @override
    def arrived(self, batch: Any, seed: int) -> Any:
        """Convert and normalise images that were sent as bytes."""
        images, targets = batch
        views = images if self._views.is_list else [images]
        done = [
            view if is_finished else with_values(plan, view)
            for view, plan, is_finished in zip(views, self._views.plans, self._is_finished, strict=True)
        ]
        return super().arrived([done if self._views.is_list else done[0], targets], seed)


def with_values(plan: Plan, images: torch.Tensor) -> torch.Tensor:
    """Convert and normalise uint8 images as the plan says; a copy, if it says anything."""
    if plan.pointwise.operations is None:
        return images
    return plan.pointwise.apply_(images.to(torch.float32))
