"""How Moving MNIST becomes records: one .npy file, with the frames on its first axis and the videos on its second."""

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
from typing_extensions import override

from recordzoo.recipes.arrays import ArraysRecipe, Chunk, seekable
from recordzoo.records.arrays import MAX_HEADER_BYTES, header_of

_CHUNK = 64
_FRAME = 64 * 64


class MovingMNIST(ArraysRecipe):
    """Videos; a record has all frames of one."""

    image_shape = (20, 64, 64)
    splits = {"all": ["mnist_test_seq.npy"]}

    @override
    def decode(self, name: str, file: BinaryIO) -> Iterator[Chunk]:
        with seekable(file) as whole:
            version, shape, is_fortran, dtype, start = header_of(whole.read(MAX_HEADER_BYTES))
            if version != (1, 0):
                raise ValueError(f"it is .npy of version {version}, not (1, 0)")
            if is_fortran or dtype != np.uint8 or shape[:1] + shape[2:] != self.image_shape:
                raise ValueError(f"it is an array {dtype} {shape}, not uint8 (20, n, 64, 64)")
            count = shape[1]
            for first in range(0, count, _CHUNK):
                videos = np.empty((min(_CHUNK, count - first), *self.image_shape), np.uint8)
                for frame in range(len(videos[0])):
                    whole.seek(start + (frame * count + first) * _FRAME)
                    data = whole.read(len(videos) * _FRAME)
                    videos[:, frame] = np.frombuffer(data, np.uint8).reshape(-1, 64, 64)
                yield {"image": videos}


RECIPES = {"moving_mnist": MovingMNIST}
