"""The loaders that are compared, each over the same images with the same transforms."""

import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset, Subset
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
from recordzoo.records.reader import RecordReader
from recordzoo.system.usage import forget

AT_LEAST_S = 1.0
"""How long the epochs after the first are, at least."""


def run(loader: str, task: Task) -> Measurement:
    """Measure a loader in this process, which did nothing before.

    The first epoch is a cold one where the system lets its caches forget a file: of the files that are read, not of the
    directories that they are in.

    Raises:
        ArgumentError: There is no such transform or split.
        OtherSourceError: The records are not images.
    """
    open_dataset, make_loader = _LOADERS[loader]
    transform: Callable[..., Any] = load_transform(task.transform)
    chosen = _choose(open_dataset(task, transform), task)
    forget(_files(chosen, task))
    num_images = len(chosen)
    return measure(
        lambda: make_loader(_choose(open_dataset(task, transform), task), task), num_images, at_least_s=AT_LEAST_S
    )


def _open_files(task: Task, transform: Callable[..., Any]) -> Dataset[Any]:
    dataset: Dataset[Any] = ImageFolder(str(task.tree), transform, allow_empty=True)
    return dataset


def _open_records(task: Task, transform: Callable[..., Any]) -> Dataset[Any]:
    return Images(task.records, transform, task.split or "")


class Images(RecordDataset):
    """The images of any record set, with their labels; where targets are something else or absent, each target is 0.

    So the images of every record set can be measured, and a batch can always be put together.

    Args:
        path: The record set.
        transform: Applied to each image.
        split: A split of it; "" for all images.

    Raises:
        NotPreparedError: There is no such split.
        OtherSourceError: There is no field "image".
    """

    def __init__(self, path: Path, transform: Callable[..., Any], split: str = "") -> None:
        self._start(path, transform=transform)
        selection = image_selection(path, split)
        self._show_files(selection, files_folder(selection.reader, str(path)), default_loader, allow_empty=True)


def image_selection(path: Path, split: str = "") -> Selection:
    """Choose the images of a record set with their labels, as `Images` shows them; errors as there."""
    reader = open_images(path)
    has_image: NDArray[np.bool_] = reader.array("image.index")["shard"] != NO_SHARD
    if has_image.all() and _has_labels(reader):
        return Selection(reader, split)
    positions = Selection(reader, split).all_positions()
    positions = positions[has_image[positions]]
    return Selection(reader, positions=positions, targets=np.zeros(len(positions), np.int64))


def _has_labels(reader: RecordReader) -> bool:
    try:
        return stored_selection(reader).has_labels
    except OtherSourceError:
        return False


def _choose(dataset: Dataset[Any], task: Task) -> Subset[Any]:
    """Take so many images at random, the same ones each time."""
    total = len(dataset)  # type: ignore[arg-type]  # both datasets have a length
    return Subset(dataset, random.Random(0).sample(range(total), min(task.num_images, total)))


def _stock(dataset: Subset[Any], task: Task) -> Iterable[Any]:
    return DataLoader(
        dataset, task.batch_size, shuffle=True, num_workers=task.workers, persistent_workers=task.workers > 0
    )


def _exact(dataset: Subset[Any], task: Task) -> Iterable[Any]:
    return RecordLoader(dataset, task.batch_size, shuffle=True, num_workers=task.workers, persistent_workers=True)


def _fast(dataset: Subset[Any], task: Task) -> Iterable[Any]:
    return RecordLoader(
        dataset, task.batch_size, shuffle=True, num_workers=task.workers, precision="fast", persistent_workers=True
    )


_LOADERS = {
    FILES: (_open_files, _stock),
    STOCK: (_open_records, _stock),
    EXACT: (_open_records, _exact),
    FAST: (_open_records, _fast),
}


def _files(chosen: Subset[Any], task: Task) -> Iterable[Path]:
    """List the files that these images are read from."""
    dataset = chosen.dataset
    if isinstance(dataset, RecordDataset):
        return task.records.iterdir()
    return (Path(dataset.samples[index][0]) for index in chosen.indices)  # type: ignore[attr-defined]  # an ImageFolder
