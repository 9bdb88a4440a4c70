"""USPS by code: LIBSVM text, compressed with bz2; torchvision reads the compressed files."""

import bz2

import numpy as np

from tests.fakes.fake import Case, Fake
from tests.fakes.mutations import ARRAYS
from tests.fakes.scale import scaled


def _text(rng: np.random.Generator, count: int) -> bytes:
    lines = []
    for label in [4, 1, 10, *rng.integers(1, 11, count - 3).tolist()]:
        values = [-1.0, 1.0, *rng.uniform(-1, 1, 254).round(6).tolist()]
        pairs = " ".join(f"{index}:{value:g}" for index, value in enumerate(values, 1))
        lines.append(f"{label} {pairs} \n")  # a space at the end of a line, as torchvision describes the format
    return bz2.compress("".join(lines).encode())


def _build() -> Fake:
    rng = np.random.default_rng(0)
    files = {"usps.bz2": _text(rng, scaled(12)), "usps.t.bz2": _text(rng, scaled(7))}
    case = Case("USPSRecord", ({}, {"train": False}), mutations=ARRAYS, sources=("archive",))
    return Fake("usps", files, [case], is_tree=True)


FAKES = (_build(),)
