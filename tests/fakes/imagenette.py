"""Imagenette by code: class folders named by WNIDs, in three sizes; `.JPEG` as ImageNet has it."""

import numpy as np

from tests.fakes.fake import Case, Fake, tar
from tests.fakes.mutations import FILE_SAMPLES
from tests.fakes.pictures import jpeg, picture
from tests.fakes.scale import scaled

WNIDS = [
    "n01440764",
    "n02102040",
    "n02979186",
    "n03000684",
    "n03028079",
    "n03394916",
    "n03417042",
    "n03425413",
    "n03445777",
    "n03888257",
]
SIZES = {"full": ("imagenette2", 60), "320px": ("imagenette2-320", 32), "160px": ("imagenette2-160", 16)}


def _archive(folder: str, side: int, seed: int) -> bytes:
    rng = np.random.default_rng(seed)
    files = {f"{folder}/noisy_imagenette.csv": b"path,noisy_labels_0\n"}
    for split, count in (("train", 2), ("val", 1)):
        for wnid in WNIDS:
            for number in rng.permutation(9000)[: scaled(count) if (split, side) == ("train", 60) else count].tolist():
                width, height = side + number % 7, side + number % 11
                files[f"{folder}/{split}/{wnid}/{wnid}_{number}.JPEG"] = jpeg(picture(rng, width, height))
    return tar(files)


def _build() -> Fake:
    files = {f"{folder}.tgz": _archive(folder, side, side) for folder, side in SIZES.values()}
    arguments = [{"split": split, "size": size} for size in SIZES for split in ("train", "val")]
    bad = ({"split": "test"}, {"size": "64px"}, {"size": None})
    return Fake("imagenette", files, [Case("ImagenetteRecord", arguments, bad, FILE_SAMPLES)])


FAKES = (_build(),)
