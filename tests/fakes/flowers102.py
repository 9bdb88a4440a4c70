"""Oxford 102 Flowers by code: photographs in one folder, labels from 1 and split ids in MATLAB files."""

import numpy as np

from tests.fakes.fake import Case, Fake, md5, tar
from tests.fakes.matlab import mat
from tests.fakes.mutations import FILES
from tests.fakes.pictures import jpeg, picture
from tests.fakes.scale import scaled


def _build() -> Fake:
    rng = np.random.default_rng(0)
    count = scaled(20)
    ids = rng.permutation(np.arange(1, 1 + count)).astype(np.uint16)
    images = {f"jpg/image_{place + 1:05d}.jpg": jpeg(picture(rng, 21 + place % 20, 30)) for place in range(count)}
    files = {
        "102flowers.tgz": tar(images),
        "imagelabels.mat": mat(labels=rng.integers(1, 103, count).astype(np.uint8)),
        "setid.mat": mat(trnid=ids[: scaled(5)], valid=ids[scaled(5) : scaled(10)], tstid=ids[scaled(10) :]),
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
