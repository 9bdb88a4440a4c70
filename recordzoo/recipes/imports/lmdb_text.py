"""LMDBs of text recognition: `image-000000001`, `label-000000001`, ..., `num-samples`. The label is a text.

bgshih/crnn tool/create_dataset.py and its copies, such as clovaai/deep-text-recognition-benchmark
create_lmdb_dataset.py. Numbers begin at 1 and have nine digits; other keys (`lexicon-000000001`) are not read.
"""

from collections.abc import Sequence
from pathlib import Path

from recordzoo.recipes.imports.sample import ForeignValueError, Order, Read, Sample

NAME = "lmdb_text"
EXPECTED = "an image's file under image-000000001, and its text under label-000000001"

COUNT = b"num-samples"


def parse(value: bytes) -> Sample:
    """Take an image's file; its text has a key of its own."""
    return Sample(value)


def order(keys: Sequence[bytes], read: Read, file: Path) -> Order:
    """Count from 1 to `num-samples`.

    Raises:
        ForeignValueError: An image or a label is missing, or there are more.
    """
    places = {key: place for place, key in enumerate(keys)}
    stored = read(places[COUNT]) if COUNT in places else b"not there"
    if not stored.isdigit() or len(stored) > 20:
        raise ForeignValueError(f"its key num-samples is {stored[:20].decode('latin-1')}")
    number_of_images = sum(key.startswith(b"image-") for key in keys)
    if int(stored) != number_of_images:
        raise ForeignValueError(f"num-samples is {int(stored)}, but there are {number_of_images:,} keys image-...")
    wanted = [[b"%s-%09d" % (kind, number + 1) for number in range(int(stored))] for kind in (b"image", b"label")]
    for key in (*wanted[0], *wanted[1]):
        if key not in places:
            raise ForeignValueError(f"key {key!r} is not there")
    images, labels = ([places[key] for key in each] for each in wanted)
    return images, labels
