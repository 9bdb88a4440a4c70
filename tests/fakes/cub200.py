"""CUB-200-2011 by code; made by the package, because its demo needs it too."""

from recordzoo.cli.demo import birds
from recordzoo.cli.demo.birds import (
    ARCHIVE,
    ATTRIBUTE_NAMES,
    MASK_ARCHIVE,
    PART_NAMES,
    FakeCUB200,
    remote_files,
    write_tgz,
)
from tests.fakes.scale import SIDE, scaled

__all__ = [
    "ARCHIVE",
    "ATTRIBUTE_NAMES",
    "MASK_ARCHIVE",
    "PART_NAMES",
    "FakeCUB200",
    "build",
    "remote_files",
    "write_tgz",
]


def build(
    num_classes: int = 3, images_per_class: int = 4, *, size: tuple[int, int] = (60, 45), seed: int = 0
) -> FakeCUB200:
    """Make the dataset; see the package's function. Large pictures are as large as the real ones."""
    width, height = (side * (1 + SIDE // 2) for side in size)
    return birds.build(num_classes, scaled(images_per_class, "cub200"), size=(width, height), seed=seed)
