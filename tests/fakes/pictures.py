"""Generated pictures; most are made by the package, because its demo needs them too."""

import struct

from recordzoo.cli.demo.pictures import Box, encoded, jpeg, picture

__all__ = ["Box", "encoded", "jpeg", "picture", "with_broken_exif"]


def with_broken_exif(data: bytes) -> bytes:
    """Put an EXIF block into a JPEG whose directory claims more entries, and longer ones, than it has."""
    tiff = b"II*\x00\x08\x00\x00\x00" + b"\xff\x00" + b"\x0f\x01\x02\x00\xff\xff\x00\x00\xff\xff\x00\x00"
    block = b"Exif\x00\x00" + tiff
    return data[:2] + b"\xff\xe1" + struct.pack(">H", len(block) + 2) + block + data[2:]
