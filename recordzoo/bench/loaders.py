"""The loaders that are compared, each over the same images with the same transforms."""

import contextlib
import random
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import DataLoader, Subset
from torchvision.datasets import ImageFolder
from torchvision.datasets.folder import default_loader

from recordzoo.bench.task import FAST, FILES, FILES_OURS, STOCK, Task, load_transform
from recordzoo.errors import OtherSourceError
from recordzoo.families.custom import stored_selection
from recordzoo.families.path_loader import files_folder
from recordzoo.families.record_set import RecordDataset, open_images
from recordzoo.families.selection import Selection
from recordzoo.loader.loader import RecordLoader
from recordzoo.records.manifest import NO_SHARD

_AT_LEAST_S = 1.0  # of the epochs after the first


def run(loader: str, task: Task) -> float:
    """Measure a loader in this process, which did nothing before: images per second, in whole epochs after the first.

    Raises:
        ArgumentError: There is no such transform or split.
        OtherSourceError: The records are not images.
    """
    is_stock = loader in (FILES, STOCK)
    options: dict[str, Any] = {"batch_size": task.batch_size, "shuffle": True, "num_workers": task.workers}
    options |= {"precision": "fast"} if loader == FAST else {}
    kind: Callable[..., Any] = DataLoader if is_stock else RecordLoader
    chosen = _open(loader, task, load_transform(task.transform))
    made = kind(chosen, persistent_workers=not is_stock or task.workers > 0, **options)
    deque(made, maxlen=0)  # not counted: workers start, files get into the page cache
    start, epochs = time.perf_counter(), 0
    while (took_s := time.perf_counter() - start) < _AT_LEAST_S or not epochs:
        deque(made, maxlen=0)
        epochs += 1
    return epochs * len(chosen) / took_s


def _open(loader: str, task: Task, transform: Callable[..., Any]) -> Subset[Any]:
    """Open the data of a loader and choose samples at random, the same ones each time."""
    dataset: Any  # either dataset
    if loader in (FILES, FILES_OURS):
        dataset = ImageFolder(str(task.tree), transform, allow_empty=True)
    else:
        dataset = Images(task.records, transform, task.split or "")  # type: ignore[arg-type]  # it is there
    chosen = random.Random(0).sample(range(len(dataset)), min(task.num_images, len(dataset)))
    return Subset(dataset, chosen)


class Images(RecordDataset):
    """The images of any record set, with their labels; each target is 0 where targets are something else or absent.

    Raises:
        NotPreparedError: There is no such split.
        OtherSourceError: There is no field "image".
    """

    def __init__(self, path: Path, transform: Callable[..., Any], split: str = "") -> None:
        self._start(path, transform=transform)
        reader = open_images(path)
        has_image = reader.array("image.index")["shard"] != NO_SHARD
        has_labels = False
        with contextlib.suppress(OtherSourceError):
            has_labels = stored_selection(reader).has_labels
        selection = Selection(reader, split)
        if not (has_image.all() and has_labels):
            positions = selection.all_positions()
            positions = positions[has_image[positions]]
            selection = Selection(reader, positions=positions, targets=np.zeros(len(positions), np.int64))
        self._show_files(selection, files_folder(reader, str(path)), default_loader, allow_empty=True)
