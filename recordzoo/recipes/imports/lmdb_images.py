"""LMDBs of images' files under their names: BasicSR's `make_lmdb_from_imgs`, LSUN. There are no labels.

BasicSR (XPixelGroup/BasicSR basicsr/utils/lmdb_util.py) writes `meta_info.txt` into the directory: lines such as
`0001.png (480,480,3) 1`, whose key is `0001`. Its order is that in which BasicSR counts the images.
Copies of folder2lmdb that leave out the label (Fangyh09/Image2LMDB) pickle the file, or store it with pyarrow.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from recordzoo.recipes.images import sniffed_ending
from recordzoo.recipes.imports import folder2lmdb
from recordzoo.recipes.imports.database import DATA_FILE
from recordzoo.recipes.imports.sample import ForeignValueError, Order, Read, Sample

NAME = "lmdb_images"
EXPECTED = "an image's file"

LIST_NAME = "meta_info.txt"


def parse(value: bytes) -> Sample:
    """Take an image's file.

    Raises:
        ForeignValueError: It does not begin as one.
    """
    image: object = value
    if not sniffed_ending(value):
        with contextlib.suppress(ForeignValueError):
            image = folder2lmdb.loaded(value)
    if not isinstance(image, bytes) or not sniffed_ending(image):
        raise ForeignValueError(f"it is no image's file, but begins with {value[:8].hex(' ')}")
    return Sample(image)


def order(keys: Sequence[bytes], read: Read, file: Path) -> Order:
    """Take the order of `meta_info.txt`; without it, that of `__keys__` or of the keys.

    Raises:
        ForeignValueError: `meta_info.txt` does not fit the keys that are there.
    """
    listing = file.with_name(LIST_NAME)
    if file.name != DATA_FILE or not listing.is_file():
        return folder2lmdb.order(keys, read, file)
    places = {key: place for place, key in enumerate(keys)}
    with listing.open("rb") as lines:
        names = [line.strip().rsplit(b" ", 2)[0] for line in lines if line.strip()]
    wanted = [name.rpartition(b".")[0] or name for name in names]
    return folder2lmdb.in_order(wanted, places, LIST_NAME), ()
