"""The image trees that the peers are given, each made once for a folder of photographs and kept."""

import hashlib
import io
import itertools
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from PIL import Image

from benchmarks.common import WORK, many

PHOTOS_BYTES = 112_000_000  # 1,000 and some photographs
COLD_BYTES = 1_000_000_000
NUM_TINY = 20_000
NUM_BIRDS = 2_000
NUM_256, MANY_256 = 3_000, 10_000


def find_tree(name: str, photos: Sequence[bytes]) -> Path:
    """Return the tree of a name, made of these photographs; it is made if it is not there."""
    digest = hashlib.blake2b(b"".join(photos), digest_size=4).hexdigest()
    tree = WORK / "peers" / digest / name / "tree"
    if not tree.exists():
        draft = tree.with_suffix(".tmp")
        shutil.rmtree(draft, ignore_errors=True)
        num_classes = 200 if name == "birds" else 40
        for number, (data, ending) in enumerate(_MAKERS[name](photos)):
            path = draft / f"class{number % num_classes:03d}" / f"{number:06d}.{ending}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        draft.rename(tree)
        os.sync()
    return tree


def count_files(tree: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(tree))


Files = Iterator[tuple[bytes, str]]


def _photos(photos: Sequence[bytes]) -> Files:
    return ((data, "jpg") for data in many(list(photos), PHOTOS_BYTES))


def _gigabyte(photos: Sequence[bytes]) -> Files:
    return ((data, "jpg") for data in many(list(photos), COLD_BYTES))


def _short_256(photos: Sequence[bytes]) -> Files:
    """The same photographs with 256 pixels on the shorter side; PNG, so that who encodes them anew loses nothing."""
    for data, _ in _photos(photos):
        image = Image.open(io.BytesIO(data)).convert("RGB")
        size = [int(256 * side / min(image.size)) for side in image.size]
        yield _encoded(image.resize(size), "PNG", compress_level=1), "png"


def _jpeg_256(photos: Sequence[bytes], number: int = NUM_256) -> Files:
    """JPEGs with 256 pixels on the shorter side."""
    images = (Image.open(io.BytesIO(data)).convert("RGB") for data in photos)
    sizes = ((image, [int(256 * side / min(image.size)) for side in image.size]) for image in images)
    small = [_encoded(image.resize(size), "JPEG", quality=90) for image, size in sizes]
    return ((data, "jpg") for data in itertools.islice(itertools.cycle(small), number))


def _many_256(photos: Sequence[bytes]) -> Files:
    return _jpeg_256(photos, MANY_256)


def _tiny(photos: Sequence[bytes]) -> Files:
    """JPEGs of 16 x 16 pixels."""
    small = [_encoded(Image.open(io.BytesIO(data)).convert("RGB").resize((16, 16)), "JPEG") for data in photos]
    return ((data, "jpg") for data in itertools.islice(itertools.cycle(small), NUM_TINY))


def _birds(photos: Sequence[bytes]) -> Files:
    """What CUB-200-2011 is like: 500 pixels on the longer side, about 100 KB, 200 classes."""
    birds = []
    for data in photos:
        image = Image.open(io.BytesIO(data)).convert("RGB")
        scale = 500 / max(image.size)
        birds.append(_encoded(image.resize([max(1, round(side * scale)) for side in image.size]), "JPEG", quality=94))
    return ((data, "jpg") for data in itertools.islice(itertools.cycle(birds), NUM_BIRDS))


def _encoded(image: Image.Image, kind: str, **options: int) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


_MAKERS = {
    "photos": _photos,
    "gigabyte": _gigabyte,
    "short256": _short_256,
    "jpeg256": _jpeg_256,
    "many256": _many_256,
    "tiny": _tiny,
    "birds": _birds,
}
