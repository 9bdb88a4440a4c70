"""FFCV: images that it encodes anew into a file of its own, pipelines that numba compiles in the first epoch."""

from pathlib import Path

import numpy as np
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.decoders import IntDecoder, RandomResizedCropRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, Squeeze, ToTensor, ToTorchImage
from ffcv.writer import DatasetWriter
from torchvision.datasets import ImageFolder

from benchmarks.peers.work import MEAN, STD, Work


def write(tree: Path, folder: Path, write_mode: str = "jpg", max_resolution: int | None = None) -> None:
    """Encode the photographs anew; `max_resolution` is the longer side."""
    image = RGBImageField(write_mode=write_mode, max_resolution=max_resolution, jpeg_quality=90)
    fields = {"image": image, "label": IntField()}
    DatasetWriter(str(folder / "photos.beton"), fields, num_workers=2).from_indexed_dataset(ImageFolder(tree))


def loader(tree: Path, folder: Path, work: Work) -> Loader:
    image = [RandomResizedCropRGBImageDecoder((work.size, work.size)), RandomHorizontalFlip()]
    if work.dtype == "float32":
        image.append(NormalizeImage(255 * np.array(MEAN), 255 * np.array(STD), np.float32))
    return Loader(
        str(folder / "photos.beton"),
        batch_size=work.batch_size,
        num_workers=work.workers,
        order=OrderOption.RANDOM,
        os_cache=True,
        drop_last=False,
        pipelines={
            "image": [*image, ToTensor(), ToTorchImage(convert_back_int16=False)],
            "label": [IntDecoder(), ToTensor(), Squeeze()],
        },
    )
