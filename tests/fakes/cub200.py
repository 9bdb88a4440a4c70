"""CUB-200-2011 by code; made by the package, because its demo needs it too."""

from recordzoo.cli.demo.birds import (
    ARCHIVE,
    ATTRIBUTE_NAMES,
    MASK_ARCHIVE,
    PART_NAMES,
    FakeCUB200,
    build,
    remote_files,
    write_tgz,
)

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
