"""TurboLoader: a tar file, decoded, cropped and normalised by threads of its own, as many as there are cores."""

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import turboloader

from benchmarks.peers.work import Work


def write(tree: Path, folder: Path) -> None:
    with tarfile.open(folder / "photos.tar", "w") as tar:
        for path in sorted(tree.rglob("*.*")):
            tar.add(path, path.relative_to(tree).as_posix())


class Batches:
    """Each iteration is an epoch of (images, what the loader says of them)."""

    def __init__(self, path: Path, work: Work) -> None:
        self._epoch = 0
        self._loader = turboloader.DataLoader(
            str(path),
            batch_size=work.batch_size,
            num_workers=work.workers,
            shuffle=True,
            image_size=work.size,
            output_format="pytorch",
            transform=turboloader.ImageNetNormalize(),
            train_aug=True,  # RandomResizedCrop and a flip
            antialias=True,  # as torchvision's
        )

    def __iter__(self) -> Iterator[Any]:  # Any: what comes beside the images
        self._loader.set_epoch(self._epoch)
        self._epoch += 1
        for images, *others in self._loader:
            yield torch.as_tensor(images), others


def loader(tree: Path, folder: Path, work: Work) -> Batches:
    return Batches(folder / "photos.tar", work)
