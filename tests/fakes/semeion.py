"""SEMEION by code: a text file, a row of 1,814 bytes for each digit."""

import numpy as np

from tests.fakes.fake import Case, Fake, md5
from tests.fakes.mutations import LABELLED_ARRAYS
from tests.fakes.scale import scaled


def _build() -> Fake:
    rng = np.random.default_rng(0)
    rows = []
    for label in [7, *rng.integers(0, 10, scaled(12) - 1).tolist()]:
        pixels = "".join(f"{pixel:.4f} " for pixel in rng.integers(0, 2, 256))
        rows.append(pixels + "".join(f"{int(digit == label)} " for digit in range(10)) + "\r\n")
    files = {"semeion.data": "".join(rows).encode()}
    case = Case(
        "SEMEIONRecord",
        ({"download": False}, {}),  # by default torchvision would download what is missing
        mutations=LABELLED_ARRAYS,
        attributes={"md5_checksum": md5(files["semeion.data"])},
        sources=("tree",),  # the raw file is no archive
    )
    return Fake("semeion", files, [case])


FAKES = (_build(),)
