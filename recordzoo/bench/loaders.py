"""The loaders that are compared, each over the same images with the same transforms."""

import contextlib
import random
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Subset
from torchvision.datasets import ImageFolder
from torchvision.datasets.folder import default_loader

from recordzoo.bench.measure import Measurement, measure
from recordzoo.bench.task import EXACT, FAST, FILES, STOCK, Task
from recordzoo.bench.transform import load_transform
from recordzoo.errors import OtherSourceError
from recordzoo.families.custom import stored_selection
from recordzoo.families.path_loader import files_folder
from recordzoo.families.record_set import RecordDataset, open_images
from recordzoo.families.selection import Selection
from recordzoo.loader.loader import RecordLoader
from recordzoo.records.manifest import NO_SHARD
from recordzoo.system.usage import forget

AT_LEAST_S = 1.0
"""Minimum time of the epochs after the first, in seconds."""


def run(loader: str, task: Task) -> Measurement:
    """Measure a loader in this process, which did nothing before.

    The first epoch is cold where the system can drop a file from its caches: the files that are read, not directories.

    Raises:
        ArgumentError: There is no such transform or split.
        OtherSourceError: The records are not images.
    """
    transform: Callable[..., Any] = load_transform(task.transform)
    chosen = _open(loader, task, transform)
    dataset = chosen.dataset
    if isinstance(dataset, RecordDataset):
        forget(task.records.iterdir())
    else:
        forget(Path(dataset.samples[index][0]) for index in chosen.indices)  # type: ignore[attr-defined]  # ImageFolder
    make = partial(_LOADERS[loader], batch_size=task.batch_size, shuffle=True, num_workers=task.workers)
    keep = loader in (EXACT, FAST) or task.workers > 0
    return measure(
        lambda: make(_open(loader, task, transform), persistent_workers=keep), len(chosen), at_least_s=AT_LEAST_S
    )


def _open(loader: str, task: Task, transform: Callable[..., Any]) -> Subset[Any]:
    """Open the data of a loader; choose samples at random, the same ones each time."""
    dataset: Any = None  # Any: either dataset
    if loader == FILES:
        dataset = ImageFolder(str(task.tree), transform, allow_empty=True)
    else:
        dataset = Images(task.records, transform, task.split or "")
    total = len(dataset)
    return Subset(dataset, random.Random(0).sample(range(total), min(task.num_images, total)))


class Images(RecordDataset):
    """The images of any record set, with their labels; each target is 0 where targets are something else or absent.

    Raises:
        NotPreparedError: There is no such split.
        OtherSourceError: There is no field "image".
    """

    def __init__(self, path: Path, transform: Callable[..., Any], split: str = "") -> None:
        self._start(path, transform=transform)
        selection = _images(path, split)
        self._show_files(selection, files_folder(selection.reader, str(path)), default_loader, allow_empty=True)


def _images(path: Path, split: str) -> Selection:
    reader = open_images(path)
    has_image: NDArray[np.bool_] = reader.array("image.index")["shard"] != NO_SHARD
    has_labels = False
    with contextlib.suppress(OtherSourceError):
        has_labels = stored_selection(reader).has_labels
    if has_image.all() and has_labels:
        return Selection(reader, split)
    positions = Selection(reader, split).all_positions()
    positions = positions[has_image[positions]]
    return Selection(reader, positions=positions, targets=np.zeros(len(positions), np.int64))


_LOADERS: dict[str, Callable[..., Iterable[Any]]] = {
    FILES: DataLoader,
    STOCK: DataLoader,
    EXACT: RecordLoader,
    FAST: partial(RecordLoader, precision="fast"),
}
