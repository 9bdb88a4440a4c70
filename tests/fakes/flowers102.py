"""Oxford 102 Flowers by code: photographs in one folder, labels from 1 and split ids in MATLAB files."""

import io
from typing import Any

import numpy as np
from scipy.io import savemat

from tests.fakes.fake import Case, Fake, md5, tar
from tests.fakes.mutations import FILES
from tests.fakes.pictures import jpeg, picture


def mat(**values: Any) -> bytes:
    file = io.BytesIO()
    savemat(file, values, do_compression=True)
    return b"MATLAB 5.0 MAT-file".ljust(116) + file.getvalue()[116:]  # without the time of writing


def _build() -> Fake:
    rng = np.random.default_rng(0)
    ids = rng.permutation(np.arange(1, 21)).astype(np.uint16)
    images = {f"jpg/image_{number:05d}.jpg": jpeg(picture(rng, 20 + number, 30)) for number in range(1, 21)}
    files = {
        "102flowers.tgz": tar(images),
        "imagelabels.mat": mat(labels=rng.integers(1, 103, 20).astype(np.uint8)),
        "setid.mat": mat(trnid=ids[:5], valid=ids[5:10], tstid=ids[10:]),
    }
    attributes = {
        "_file_dict": {
            "image": ("102flowers.tgz", md5(files["102flowers.tgz"])),
            "label": ("imagelabels.mat", md5(files["imagelabels.mat"])),
            "setid": ("setid.mat", md5(files["setid.mat"])),
        }
    }
    arguments = ({}, {"split": "val"}, {"split": "test"})
    bad = ({"split": "all"}, {"split": 0})
    return Fake("flowers102", files, [Case("Flowers102Record", arguments, bad, FILES, attributes)])


FAKES = (_build(),)
