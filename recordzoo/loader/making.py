"""Make batches in pieces: their random numbers, opened images, and `Maker`, the base of the makers in `samples`."""

import contextlib
import errno
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.utils.data import default_collate, default_convert
from torch.utils.data._utils.collate import default_collate_fn_map as _collating

from recordzoo.errors import ArgumentError, CorruptRecordError, EmptyBatchError, ImageError, RecordZooError
from recordzoo.families.selection import Uneven
from recordzoo.images.decode import OPENED_AT_ONCE, Frame, JpegFrame, decoded_rgb
from recordzoo.loader.epochs import EpochKey, Keys, indices_of
from recordzoo.loader.order import hash_key, hash_keys, uniform
from recordzoo.loader.plan import Action, Crop, PixelOp, Plan, Size, decide, decoded_once, size_after
from recordzoo.loader.render import Precision, render, to_picture
from recordzoo.loader.source import Source
from recordzoo.loader.stores import Leaf

_DRAWS = 0x64726177  # separates these from the random numbers of the epoch's order
_OF_BATCH = 0x62617463  # separates a batch's seed from its first sample's
_PART = 0x9E3779B9  # distance between the seeds of a sample's views and target

# Any, in all of this module: images and targets are what the dataset has, a batch is what the collate function makes.

_OF_MACHINE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)
"""Errors of a process or machine without enough files or memory, not of a sample."""

_LOSES_INFO = ("blur", "brightness", "contrast", "grayscale", "hue", "permute")
"""Pixel operations whose results have no `info`: they begin with a new image."""


def uniforms(seed: int, epoch: int, places: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """Return numbers from 0 to 1, 1 excluded, float64 [places, count]; the same ones for the same arguments."""
    key = hash_key(seed, epoch, _DRAWS)
    return uniform(hash_keys(key, places[:, None] * count + np.arange(count)))


def local_seeds(seed: int, epoch: int, places: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a 32-bit seed for each place, for the generators of other libraries."""
    return hash_keys(hash_key(seed, epoch, _DRAWS + 1), places) >> np.uint64(32)


def batch_seed(epoch_key: EpochKey, places: NDArray[np.int64]) -> int:
    """Return the seed for `collate_fn` and `batch_transform`, from the places of the batch."""
    seeds = local_seeds(*epoch_key, places[:1])
    return (int(seeds[0]) if len(seeds) else 0) ^ _OF_BATCH


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the process's generators for one piece of work, then restore them.

    Only for worker processes and the user's thread: other threads would change the random numbers of the user's thread.
    """
    of_torch, of_python, of_numpy = torch.default_generator.get_state(), random.getstate(), np.random.get_state()
    try:
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        yield
    finally:
        torch.default_generator.set_state(of_torch)
        random.setstate(of_python)
        np.random.set_state(of_numpy)


@dataclass(frozen=True)
class BatchPiece:
    """A part of a batch.

    Attributes:
        start: The number of its first sample in the batch.
        keys: The samples' keys in the dataset.
        leaves: The number of each sample's leaf, int64 [n]; empty without leaves.
        inner: Each sample's index in its leaf, int64 [n]; empty without leaves.
        draws: Random numbers for the steps, one row per sample; float64 [n, draws].
        seeds: Seeds for generators of other libraries, 32 bits each; uint64 [n].
    """

    start: int
    keys: Keys
    leaves: NDArray[np.int64]
    inner: NDArray[np.int64]
    draws: NDArray[np.float64]
    seeds: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.keys)

    def seed(self, number: int, part: int = 0) -> int:
        """Return the seed of one part of a sample: the number of a view, or -1 for the target."""
        return (int(self.seeds[number]) + part * _PART) % (1 << 32)

    def of(self, numbers: list[int]) -> "BatchPiece":
        """Return a piece of some of the samples, with the same start. Keys must be indices."""
        columns = (self.keys, self.leaves, self.inner, self.draws, self.seeds)
        return BatchPiece(self.start, *(np.asarray(column)[numbers] for column in columns))


def cut(keys: Keys, places: NDArray[np.int64], source: Source, epoch_key: EpochKey, size: int) -> list[BatchPiece]:
    """Cut a batch, described as in `Wanted`, into pieces of a size; an empty batch is one piece."""
    leaves = inner = np.empty(0, np.int64)
    if source.leaves:
        leaves, inner = source.locate(indices_of(keys, source.kind))
    count = max((sum(plan.num_draws for plan in leaf.views.plans) for leaf in source.leaves), default=0)
    draws = uniforms(*epoch_key, places, count)
    seeds = local_seeds(*epoch_key, places)
    pieces = []
    for start in range(0, max(1, len(keys)), max(1, size)):
        here = slice(start, start + size)
        pieces.append(BatchPiece(start, keys[here], leaves[here], inner[here], draws[here], seeds[here]))
    return pieces


@dataclass(slots=True)  # not frozen: twice as fast to create, and there are many
class Opened:
    """An opened image and the actions chosen for one view of it.

    Attributes:
        index: The sample's index in `leaf`.
        draws: Random numbers for the plan's ending.
        seed: For the transforms that run as written.
    """

    leaf: Leaf
    index: int
    plan: Plan
    frame: Frame
    actions: list[Action]
    draws: list[float]
    seed: int

    @property
    def size(self) -> Size:
        """Height and width of the finished view."""
        return size_after(self.actions, (self.frame.height, self.frame.width))

    def render(self, precision: Precision) -> torch.Tensor:
        """Decode the image and apply the actions."""
        with self.leaf.naming(self.index):
            return render(self.frame, self.actions, precision)

    def picture(self, precision: Precision) -> Image.Image:
        """Do `render`, and return an image for the user's code, with `info`."""
        # Without steps this is what torchvision's loader does; decoding to an array and copying it takes longer.
        if not self.plan.steps and isinstance(self.frame, JpegFrame):
            with self.leaf.naming(self.index):
                return decoded_rgb(self.frame.data)
        picture = to_picture(self.render(precision))
        picture.info = self.info()
        return picture

    def info(self) -> dict[Any, Any]:
        """Return what the file says beside the pixels, unless torchvision's functions for the actions lose it."""
        size = self.frame.height, self.frame.width
        is_lost = any(step.loses_info for step in self.plan.steps)
        for action in self.actions:
            is_lost |= isinstance(action, PixelOp) and action.name in _LOSES_INFO
            is_lost |= isinstance(action, Crop) and not action.is_inside(size)
            size = size_after([action], size)
        return {} if is_lost else self.frame.info()

    def again(self, frame: Frame) -> "Opened":
        """Choose the actions of the plan's ending, for the image that the transforms before it returned."""
        assert self.plan.ending is not None
        with self.leaf.noting(self.index):
            actions = decide(self.plan.ending.steps, (frame.height, frame.width), self.draws)
        return Opened(self.leaf, self.index, self.plan.ending, frame, actions, [], self.seed)


def opened_at_once(source: Source) -> int:
    """Return the number of samples to open at once: few with several views, which are decoded on opening."""
    is_single = all(len(leaf.views.plans) == 1 for leaf in source.leaves)
    return OPENED_AT_ONCE if is_single else 2


def open_views(source: Source, piece: BatchPiece, number: int) -> list[Opened]:
    """Open the image of a sample for each of its views. Several views share one decoding, done here."""
    leaf, index = source.leaves[piece.leaves[number]], int(piece.inner[number])
    draws = piece.draws[number].tolist()
    with leaf.naming(index):
        frame = leaf.frame(index)
        opened = []
        for view, plan in enumerate(leaf.views.plans):
            actions = decide(plan.steps, (frame.height, frame.width), draws)
            left, seed = draws[plan.num_own_draws : plan.num_draws], piece.seed(number, view)
            opened.append(Opened(leaf, index, plan, frame, actions, left, seed))
            draws = draws[plan.num_draws :]
        if len(opened) > 1:
            frame = decoded_once(frame, [view.actions for view in opened])
            for each in opened:
                each.frame = frame
    return opened


def check_sizes(source: Source, made: list[tuple[BatchPiece, list[Any]]], cause: Exception) -> None:
    """Raise an error that names two samples, if the images of a batch differ in shape."""
    first, name_of_first = "", ""
    for piece, images in made:
        for image, leaf, index in zip(images, piece.leaves, piece.inner, strict=True):
            views = image if isinstance(image, list) else [image]
            size = ", ".join(" x ".join(map(str, view.shape)) for view in views if isinstance(view, torch.Tensor))
            name = source.leaves[leaf].name(int(index))
            if first and size != first:
                raise ArgumentError(
                    f"The images of a batch differ in shape: {name_of_first} is {first}; {name} is {size}. End their "
                    "transforms with one size, such as Resize((224, 224)) or CenterCrop(224), and with one number of "
                    "channels (v2.RGB()), or pass a collate_fn."
                ) from cause
            first, name_of_first = first or size, name_of_first or name


@dataclass(frozen=True)
class BatchOptions:
    """How batches are made of samples: everything that a worker process needs, except the order.

    Attributes:
        dataset, precision, memory_format, device, deterministic, batch_transform: As in `RecordLoader`.
        collate: Converts a list of samples to a batch.
        is_single: Whether a batch is one single sample.
        is_pinned: Whether images are in page-locked memory.
        num_kept: Number of batches whose memory is kept for reuse.
        skips: Whether samples that cannot be read or decoded are left out.
    """

    dataset: Any
    precision: Precision
    memory_format: torch.memory_format
    device: torch.device
    deterministic: bool
    collate: Callable[[Any], Any]
    batch_transform: Callable[..., Any] | None
    is_single: bool
    is_pinned: bool
    num_kept: int
    skips: bool

    @property
    def collates_by_default(self) -> bool:
        """Whether torch's own functions collate batches; a program may have given others for some types."""
        if self.collate is not (default_convert if self.is_single else default_collate):
            return False
        functions = [self.collate, *_collating.values()]
        return all(str(getattr(each, "__module__", "")).startswith("torch.") for each in functions)

    @property
    def stacks(self) -> bool:
        """Whether a batch has all images in one tensor, if they have one size."""
        return self.collates_by_default and not self.is_single

    def seeding(self, seed: int) -> contextlib.AbstractContextManager[None]:
        """Seed the process's generators for the user's functions, with `deterministic`."""
        return seeded(seed) if self.deterministic else contextlib.nullcontext()


Memory = list[torch.Tensor]
"""The memory of a batch: a tensor for each view, [count, 3, H, W]."""


class Less(NamedTuple):
    """A batch without some of its samples, and the error of each sample that was left out."""

    batch: Any
    failures: list[str]


class _BatchPart(NamedTuple):
    """A piece with `on_error="skip"`: its rows in use, and the errors of samples that were left out."""

    made: Any
    rows: slice
    failures: list[str]


class Maker(ABC):
    """Makes batches: `make` in several threads or in worker processes, then `batch`; `arrived` in the user's thread.

    Args:
        options: How batches are made.
        source: The dataset's leaves.
        runs_own: Whether the user's code makes images. Then all of a sample is made before the next one, as its code
            may keep something from the image to the target. Otherwise `batch` applies each `target_transform`.
    """

    def __init__(self, options: BatchOptions, source: Source, *, runs_own: bool) -> None:
        self.options, self.source, self.runs_own = options, source, runs_own

    @property
    def makes_whole(self) -> bool:
        """Whether a batch must be one piece, because the dataset's ``__getitems__`` makes it."""
        return False

    def memory(self, count: int) -> Memory:
        """Return the memory for a batch of this many samples."""
        return []

    def make(self, piece: BatchPiece, memory: Memory) -> Any:
        """Make a piece."""
        if not self.options.skips:
            return self._make(piece, memory)
        failures: list[str] = []
        made, is_made, are_good = None, False, False
        while len(piece) and not is_made:
            try:
                made, is_made = self._make(piece, memory), True
            except Exception as err:
                piece, found = self._without_failures(piece)
                # A file may be there again. The user's own code that failed is not run twice.
                if not found and (are_good or not isinstance(err, OSError)):
                    raise
                failures, are_good = failures + found, not found
        return _BatchPart(made, slice(piece.start, piece.start + len(piece)), failures)

    def collated(self, memory: Memory, parts: list[Any]) -> Any:
        """Build a batch from its pieces, as returned by `make`; a `Less` if samples were left out.

        Raises:
            EmptyBatchError: All samples were left out.
        """
        if not self.options.skips:
            return self._collated(memory, parts)
        failures = [failure for part in parts for failure in part.failures]
        if not failures:
            return self._collated(memory, [part.made for part in parts])
        kept = [part for part in parts if part.made is not None]
        if not kept:
            raise EmptyBatchError(
                f"None of the {len(failures)} samples of a batch can be read or decoded. The first: {failures[0]}"
            )
        rows = [torch.cat([tensor[part.rows] for part in kept]) for tensor in memory]
        return Less(self._collated(rows, [part.made for part in kept]), failures)

    def batch(self, memory: Memory, parts: list[Any], seed: int) -> Any:
        """Do `collated` and `batch_transform`; a batch for another device is transformed there, by `arrived`."""
        options = self.options
        with contextlib.nullcontext() if options.collates_by_default else options.seeding(seed):
            try:
                batch = self.collated(memory, parts)
            except TypeError as err:
                if not options.collates_by_default or "PIL." not in str(err):
                    raise
                raise TypeError(
                    f"The samples of {self.source.kind} have PIL images, which torch cannot put into a batch: give the "
                    "dataset a transform that makes tensors of them, such as transform=T.Compose([T.RandomResizedCrop("
                    "224), T.ToTensor()]) (a target_transform for images in targets), or pass a collate_fn."
                ) from err
        return self.arrived(batch, seed) if options.device.type == "cpu" else batch

    def whole(self, keys: Keys, places: NDArray[np.int64], epoch_key: EpochKey) -> Any:
        """Make a batch in one piece, in the thread that calls; the arguments are those of `cut`."""
        (piece,) = cut(keys, places, self.source, epoch_key, len(keys))
        memory = self.memory(len(piece))
        return self.batch(memory, [self.make(piece, memory)], batch_seed(epoch_key, places))

    def arrived(self, batch: Any, seed: int) -> Any:
        """Finish a batch on the user's device."""
        if isinstance(batch, Less):
            return Less(self._arrived(batch.batch, seed), batch.failures)
        return self._arrived(batch, seed)

    @abstractmethod
    def _make(self, piece: BatchPiece, memory: Memory) -> Any:
        """Make all samples of a piece."""

    @abstractmethod
    def _collated(self, memory: Memory, parts: list[Any]) -> Any:
        """Build a batch from the parts that `_make` returned."""

    def _arrived(self, batch: Any, seed: int) -> Any:
        """Return a batch after `batch_transform`, whose arguments are the parts of the batch."""
        transform = self.options.batch_transform
        if transform is None:
            return batch
        with self.options.seeding(seed):
            return transform(*batch) if isinstance(batch, list | tuple) else transform(batch)

    def _without_failures(self, piece: BatchPiece) -> tuple[BatchPiece, list[str]]:
        """Return the samples of a piece that can be decoded, and the errors of the others."""
        good, failures = [], []
        for number, (leaf, index) in enumerate(zip(piece.leaves, piece.inner.tolist(), strict=True)):
            try:
                self.source.leaves[leaf].check(index)
            except Exception as err:
                if not _is_of_sample(err):
                    raise
                failures.append(f"{type(err).__name__}: {err}")
            else:
                good.append(number)
        return piece.of(good), failures


def collated_targets(parts: list[Any]) -> Any:
    """Collate the targets of pieces: arrays or lists; tuples and dicts of these hold several targets."""
    if isinstance(parts[0], dict):
        return {key: collated_targets([part[key] for part in parts]) for key in parts[0]}
    if isinstance(parts[0], tuple):
        return [collated_targets(list(each)) for each in zip(*parts, strict=True)]
    if all(isinstance(part, np.ndarray) for part in parts):
        return torch.from_numpy(np.concatenate(parts))
    if any(isinstance(part, Uneven) for part in parts):
        return [torch.as_tensor(each) if isinstance(each, np.ndarray) else each for part in parts for each in part]
    targets = tuple(target for part in parts for target in part)  # a tuple: some collated batches keep it
    return default_collate(targets)  # type: ignore[arg-type]  # it takes any sequence


def _is_of_sample(err: Exception) -> bool:
    """Whether an error says that a sample is missing or damaged; not one of the machine or the network."""
    if isinstance(err, RecordZooError):
        return isinstance(err, ImageError | CorruptRecordError)
    return not isinstance(err, MemoryError) and getattr(err, "errno", None) not in _OF_MACHINE
