"""Moving MNIST by code: a .npy file of 20 frames of some videos, the frames first."""

import struct

import numpy as np
from numpy.typing import NDArray

from tests.fakes.fake import Case, Fake
from tests.fakes.mutations import change, change_item
from tests.fakes.scale import scaled

MUTATIONS = {
    "data flipped": change("data", lambda data: data.flip(0)),
    "data shortened": change("data", lambda data: data[:3]),
    "a video replaced": change_item("data", 0, lambda data: data[2]),
    "data as an array": change("data", np.asarray),
}


def npy(videos: NDArray[np.uint8]) -> bytes:
    """Write a .npy file with a header of 96 bytes, as the real one's size says that it has; NumPy 2 writes 128."""
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {videos.shape}, }}".ljust(85) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + videos.tobytes()


def _build() -> Fake:
    rng = np.random.default_rng(0)
    videos = np.repeat(rng.integers(0, 256, (20, scaled(5), 64, 1), dtype=np.uint8), 64, axis=3)
    arguments = (
        {"split": "train"},
        {},
        {"split": "test"},
        {"split": "train", "split_ratio": 19},
        {"split": "test", "split_ratio": 19},
        {"split": "test", "split_ratio": 1},
        {"split_ratio": 3},
        {"split": "train", "split_ratio": True},  # an int to torchvision
    )
    bad = ({"split": "val"}, {"split": 1}, {"split_ratio": 0}, {"split_ratio": 20}, {"split_ratio": 2.0})
    case = Case("MovingMNISTRecord", arguments, bad, MUTATIONS, sources=("tree",))  # the raw file is no archive
    return Fake("moving_mnist", {"mnist_test_seq.npy": npy(videos)}, [case])


FAKES = (_build(),)
