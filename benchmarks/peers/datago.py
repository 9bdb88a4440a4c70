"""datago: files walked and decoded by Rust threads. Its own crop is a centred one of a fixed size, without a flip."""

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from datago import DatagoClient
from torch.utils.data import default_collate
from torchvision.datasets import ImageFolder
from torchvision.transforms import Compose

from benchmarks.peers.work import Work


def write(tree: Path, folder: Path) -> None:
    """The tree is what it reads."""


class _Batches:
    """Its client gives decoded images one by one; an epoch is a client of its own."""

    def __init__(self, tree: Path, work: Work, crop: str) -> None:
        photos = ImageFolder(tree)
        self.work, self.labels, self.count = work, photos.class_to_idx, len(photos)
        self.config = {
            "source_type": "file",
            "source_config": {"root_path": str(tree), "random_sampling": True, "rank": 0, "world_size": 1},
            "limit": self.count,
            "samples_buffer_size": 4 * work.batch_size,
        }
        if crop == "own":
            self.config["image_config"] = {
                "crop_and_resize": True,
                "default_image_size": work.size,
                "downsampling_ratio": work.size,
                "min_aspect_ratio": 1.0,
                "max_aspect_ratio": 1.0,
            }
        steps = work.transform().transforms  # crop, flip, and what makes a tensor
        self.transform = Compose(steps[2:] if crop == "own" else steps)

    def __iter__(self) -> Iterator[Any]:
        client = DatagoClient(json.dumps(self.config))
        samples = (client.get_sample_auto_convert() for _ in range(self.count))
        while batch := [self._transformed(sample) for sample in itertools.islice(samples, self.work.batch_size)]:
            yield default_collate(batch)
        client.stop()

    def _transformed(self, sample: dict[str, Any]) -> tuple[Any, int]:
        path = Path(json.loads(sample["id"]))
        return self.transform(sample["image"].convert("RGB")), self.labels[path.parent.name]


def loader(tree: Path, folder: Path, work: Work, crop: str = "torchvision") -> _Batches:
    """Read it so that `crop` is done by "torchvision", in the calling thread, or by its "own" threads, centred."""
    os.environ["DATAGO_MAX_TASKS"] = str(work.workers)
    return _Batches(tree, work, crop)
