"""Map-style datasets of one's own, one for each kind of sample, every value a function of the position."""

import io
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from PIL import Image

COUNT = 120
Pair = namedtuple("Pair", ["left", "target"])


def rng(i: int) -> np.random.Generator:
    return np.random.default_rng(i)


def jpeg(i: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(rng(i).integers(0, 256, (8 + i % 3, 9, 3), np.uint8)).save(buffer, "jpeg")
    return buffer.getvalue()


def noise(i: int, *shape: int) -> np.ndarray:
    return rng(i).integers(0, 256, shape, np.uint8)


def flat(i: int, width: int = 100) -> Image.Image:
    return Image.new("RGB", (width, 80), (i % 256, 7, 99))


# Any: samples of all kinds.
KINDS: dict[str, Callable[[int], Any]] = {
    "bytes": lambda i: (jpeg(i), i % 5),
    "pil": lambda i: (flat(i), i % 5),
    "pil-sizes": lambda i: (flat(i, 60 + i % 7), i % 5),
    "small": lambda i: (Image.fromarray(noise(i, 32, 32, 3)), i % 10),
    "noise": lambda i: (noise(i, 70, 71, 3), i),
    "gray": lambda i: (np.full((90, 80), i % 256, np.uint8), i),
    "hwc1": lambda i: (np.full((90, 80, 1), i % 256, np.uint8), i),
    "rgba": lambda i: (np.full((90, 80, 4), i % 256, np.uint8), i),
    "chw": lambda i: (torch.from_numpy(noise(i, 3, 8, 9)), i),
    "float": lambda i: (torch.full((3, 4, 5), i / 8), i),
    "half": lambda i: (torch.full((3, 4, 5), i, dtype=torch.float16), i),
    "int16": lambda i: (np.full((40, 30, 2), -i, np.int16), i),
    "big-endian": lambda i: (np.full((40, 30), i, ">u2"), i),
    "raw-shapes": lambda i: (np.full((2, 3 + i % 4), i, np.float32), i),
    "boxes": lambda i: (jpeg(i), {"boxes": torch.full((i % 4, 4), i / 2), "labels": [i, None, "x"], "ok": True}),
    "celeba": lambda i: (jpeg(i), (i, torch.arange(4) + i, np.float32(i / 2))),
    "float-target": lambda i: (jpeg(i), i / 4),
    "bool-target": lambda i: (jpeg(i), i % 3 == 0),
    "tensor-label": lambda i: (jpeg(i), torch.tensor(i)),
    "numpy-label": lambda i: (jpeg(i), np.int32(i)),
    "text": lambda i: (jpeg(i), f"caption {i} ä\ud800"),
    "mask": lambda i: (jpeg(i), Image.fromarray(noise(i, 70, 90), "L")),
    "three": lambda i: (jpeg(i), i, noise(i, 5)),
    "named": lambda i: Pair(jpeg(i), i),
    "dict": lambda i: {"image": jpeg(i), "label": i, "meta": {"id": i}},
    "bare": jpeg,
    "numbers": lambda i: (i, i * 2),
}


class Samples:
    """A map-style dataset of a kind; pickles."""

    def __init__(self, kind: str, count: int = COUNT) -> None:
        self.kind, self.count = kind, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < self.count:
            raise IndexError(index)
        return KINDS[self.kind](index)
