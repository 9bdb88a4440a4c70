"""Images per second of NVIDIA DALI on the CPU: `python -m benchmarks.recipes_dali FOLDER WORKERS OPTIONS`.

OPTIONS are arguments of `photos` as JSON. Needs DALI and torch, not recordzoo.
"""

import json
import sys
import time

from nvidia.dali import fn, math, pipeline_def, types
from nvidia.dali.auto_aug.rand_augment import rand_augment
from nvidia.dali.auto_aug.trivial_augment import trivial_augment_wide
from nvidia.dali.data_node import DataNode
from nvidia.dali.plugin.base_iterator import LastBatchPolicy
from nvidia.dali.plugin.pytorch import DALIGenericIterator

MEAN, STD = [[255 * value for value in values] for values in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]


def trivial(images: DataNode) -> DataNode:
    return trivial_augment_wide(images, fill_value=0, interp_type=types.INTERP_NN)


def rand(images: DataNode) -> DataNode:
    return rand_augment(images, n=2, m=9, fill_value=0, interp_type=types.INTERP_NN)


def jitter(images: DataNode) -> DataNode:
    brightness, contrast, saturation = (fn.random.uniform(range=[0.6, 1.4]) for _ in range(3))
    return fn.color_twist(images, brightness=brightness, contrast=contrast, saturation=saturation)


def simclr(images: DataNode) -> DataNode:
    """Change the colours of four fifths of the images, make a fifth grey, blur all."""
    chosen = fn.random.coin_flip(probability=0.8)
    brightness, contrast, saturation = (1 + chosen * fn.random.uniform(range=[-0.8, 0.8]) for _ in range(3))
    saturation *= 1 - fn.random.coin_flip(probability=0.2)
    hue = chosen * fn.random.uniform(range=[-72.0, 72.0])  # degrees
    images = fn.color_twist(images, brightness=brightness, contrast=contrast, saturation=saturation, hue=hue)
    return fn.gaussian_blur(images, window_size=23, sigma=fn.random.uniform(range=[0.1, 2.0]))


def erase(images: DataNode, share: float) -> DataNode:
    """Set a box of a share of the images to 0, of RandomErasing's areas and ratios."""
    area, ratio = fn.random.uniform(range=[0.02, 0.33]), math.exp(fn.random.uniform(range=[-1.2, 1.2]))
    chosen = fn.random.coin_flip(probability=share)
    height, width = (chosen * math.min(math.sqrt(part), 1) for part in (area * ratio, area / ratio))
    top, left = ((1 - side) * fn.random.uniform(range=[0.0, 1.0]) for side in (height, width))
    return fn.erase(images, anchor=fn.stack(top, left), shape=fn.stack(height, width), axis_names="HW", normalized=True)


CHANGES = {change.__name__: change for change in (trivial, rand, jitter, simclr)}


@pipeline_def(enable_conditionals=True)
def photos(
    folder: str,
    size: int = 224,
    crop: bool = True,
    cubic: bool = False,
    change: str | None = None,
    erased: float | None = None,
) -> tuple[DataNode, DataNode]:
    """Decode, crop at random and flip, change, normalise and erase; without `crop`, the middle of 256 pixels."""
    encoded, labels = fn.readers.file(file_root=folder, random_shuffle=True, name="photos")
    if crop:
        images = fn.decoders.image_random_crop(encoded, random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3])
        images = fn.resize(images, size=(size, size), interp_type=types.INTERP_CUBIC if cubic else types.INTERP_LINEAR)
    else:
        images = fn.resize(fn.decoders.image(encoded), resize_shorter=256)
    if change is not None:
        images = CHANGES[change](images)
    mirror = fn.random.coin_flip(probability=0.5 if crop else 0.0)
    images = fn.crop_mirror_normalize(
        images, crop=(size, size), mirror=mirror, dtype=types.FLOAT, mean=MEAN, std=STD, output_layout="CHW"
    )
    return (images if erased is None else erase(images, erased)), labels


def main() -> None:
    folder, workers, options = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    pipeline = photos(folder, **options, batch_size=64, num_threads=workers, device_id=None, prefetch_queue_depth=2)
    policy = LastBatchPolicy.PARTIAL
    loader = DALIGenericIterator(pipeline, ["images", "labels"], reader_name="photos", last_batch_policy=policy)
    for _ in loader:
        pass
    loader.reset()
    start, count = time.perf_counter(), 0
    for (batch,) in loader:
        count += len(batch["images"])
    print(count / (time.perf_counter() - start))


if __name__ == "__main__":
    main()
