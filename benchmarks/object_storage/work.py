"""What is done with each photograph: only its bytes are read, or it becomes a row of a batch for training."""

import io
from dataclasses import dataclass
from typing import Any

from PIL import Image
from torchvision import transforms as T

from benchmarks.peers.work import Work as Pixels


@dataclass(frozen=True)
class Work:
    """What is asked of a loader.

    Attributes:
        is_decoded: Whether photographs are decoded, cropped, flipped and normalised; otherwise a sample is its number
            of bytes.
        workers: Processes or threads, whatever the loader has.
    """

    is_decoded: bool
    batch_size: int = 64
    workers: int = 2

    def transform(self) -> T.Compose | None:
        """Make torchvision's transforms for it."""
        return Pixels("float32").transform() if self.is_decoded else None


class Sample:
    """Makes a sample of a photograph's bytes. Worker processes get it pickled."""

    def __init__(self, work: Work) -> None:
        self._transform = work.transform()

    def __call__(self, data: bytes) -> Any:
        if self._transform is None:
            return len(data)
        return self._transform(Image.open(io.BytesIO(data)).convert("RGB"))


WORKS = {"read": Work(False), "decode": Work(True)}
