"""NVIDIA DALI on the CPU, with the decoder that decodes only the crop."""

from pathlib import Path

from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.base_iterator import LastBatchPolicy
from nvidia.dali.plugin.pytorch import DALIGenericIterator

from benchmarks.peers.work import MEAN, STD, Work


def write(tree: Path, folder: Path) -> None:
    """The tree is what it reads."""


@pipeline_def
def _pipeline(tree: Path, work: Work):
    encoded, labels = fn.readers.file(file_root=str(tree), random_shuffle=True, name="photos")
    images = fn.decoders.image_random_crop(
        encoded, device="cpu", output_type=types.RGB, random_area=(0.08, 1.0), random_aspect_ratio=(3 / 4, 4 / 3)
    )
    images = fn.resize(images, size=(work.size, work.size))
    mirror = fn.random.coin_flip()
    if work.dtype == "uint8":
        return fn.flip(images, horizontal=mirror), labels
    mean, std = ([255 * value for value in values] for values in (MEAN, STD))
    return fn.crop_mirror_normalize(images, mirror=mirror, dtype=types.FLOAT, mean=mean, std=std), labels


def loader(tree: Path, folder: Path, work: Work) -> DALIGenericIterator:
    pipeline = _pipeline(
        tree, work, batch_size=work.batch_size, num_threads=work.workers, device_id=None, prefetch_queue_depth=2
    )
    return DALIGenericIterator(
        pipeline, ["images", "labels"], reader_name="photos", last_batch_policy=LastBatchPolicy.PARTIAL, auto_reset=True
    )
