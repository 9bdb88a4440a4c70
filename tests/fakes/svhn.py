"""SVHN by code: MATLAB files with the number of the image on the last axis, and 10 for the digit 0."""

import io

import numpy as np
from scipy.io import savemat

from tests.fakes.fake import Case, Fake, md5
from tests.fakes.mutations import LABELLED_ARRAYS
from tests.fakes.scale import scaled


def _mat(rng: np.random.Generator, count: int) -> bytes:
    images = rng.integers(0, 256, (32, 32, 3, count), dtype=np.uint8)
    labels = rng.integers(1, 11, (count, 1)).astype(np.uint8)
    labels[0] = 10
    file = io.BytesIO()
    savemat(file, {"X": images, "y": labels}, do_compression=True)
    data = bytearray(file.getvalue())
    data[:116] = b"MATLAB 5.0 MAT-file".ljust(116)  # without the time of writing
    return bytes(data)


def _build() -> Fake:
    rng = np.random.default_rng(0)
    files = {
        f"{split}_32x32.mat": _mat(rng, count)
        for split, count in (("train", scaled(12)), ("test", scaled(8)), ("extra", scaled(5)))
    }
    lists = {
        split: ["", f"{split}_32x32.mat", md5(files[f"{split}_32x32.mat"])] for split in ("train", "test", "extra")
    }
    arguments = ({}, {"split": "test"}, {"split": "extra"})
    case = Case(
        "SVHNRecord",
        arguments,
        ({"split": "all"}, {"split": 1}),
        LABELLED_ARRAYS,
        attributes={"split_list": lists},
        sources=("tree",),  # the raw files are no archives
    )
    return Fake("svhn", files, [case])


FAKES = (_build(),)
