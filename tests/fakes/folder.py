"""Class-per-folder trees by code: the traps of real ones, small and seeded."""

import functools
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.scale import scaled


@functools.cache
def image_bytes(name: str, seed: int) -> bytes:
    """Make a small image in the format of the name's ending; content from the seed."""
    rng = np.random.default_rng(seed)
    width, height = (int(side) for side in rng.integers(8, 24, 2))
    image = picture(rng, width, height)
    ending = name.rpartition(".")[2].lower()
    if ending in ("jpg", "jpeg"):
        return jpeg(image if seed % 3 else image.convert("L"))
    if ending == "png":
        return encoded(image.convert(("RGB", "P", "LA")[seed % 3]), "PNG")
    kinds = {"ppm": "PPM", "pgm": "PPM", "bmp": "BMP", "tif": "TIFF", "tiff": "TIFF", "webp": "WEBP"}
    return encoded(image.convert("L") if ending == "pgm" else image, kinds.get(ending, "PNG"))


FILES = (
    "cat/10.png",
    "cat/2.PNG",
    "cat/.hidden.jpg",
    "cat/notes.txt",
    "cat/sub/1.jpg",
    "cat/sub-b/1.jpg",
    "cat/sub/deep/0.webp",
    "dog/a.jpeg",
    "dog/b.bmp",
    "dog/ä ö.jpg",
    "dog/c.tiff",
    "Zebra/z.ppm",
    "Zebra/y.pgm",
    "Zebra/x.jpg",
)


def write_tree(root: Path, files: Mapping[str, bytes] | None = None) -> Path:
    """Write a tree: nested folders, upper-case endings, a hidden file, non-ASCII names, a file that is no image."""
    if files is None:
        names = [*FILES, *(f"dog/{number}.jpg" for number in range(scaled(11) - 11))]
        files = {name: image_bytes(name, seed) for seed, name in enumerate(names)}
        files = {**files, "outside.jpg": image_bytes("outside.jpg", 99), "cat/notes.txt": b"no image"}
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def write_dataset(root: Path) -> Path:
    """Write a tree of which images with an ending of their own are a part; a class has none of these."""
    files = {
        f"{name}/{stem}{ending}": image_bytes(".png", seed)
        for seed, name in enumerate(("b", "a", "c"))
        for stem, ending in (
            *(("10", ".scan"), ("sub/2", ".SCAN"), ("sub-b/3", ".png"), ("long name", ".png")),
            *((f"more {number}", ".scan") for number in range(scaled(4) - 4)),
        )
    }
    texts = {f"{name}/{stem}.txt": f"{name} {stem}".encode() for name in ("a", "b", "c", "d") for stem in ("1", "x/1")}
    return write_tree(root, {**files, **texts, "d/flat.jpg": image_bytes(".jpg", 7), "d/no": b"no ending"})


def bad_image() -> bytes:
    """Bytes that no decoder knows."""
    return b"this is no image"


def cut_image() -> bytes:
    """A JPEG that ends too early: its header is fine, its pixels are not all there."""
    data = jpeg(Image.fromarray(np.random.default_rng(5).integers(0, 255, (64, 64, 3), dtype=np.uint8)))
    return data[: len(data) // 2]


def link(target: Path, link_path: Path) -> None:
    link_path.parent.mkdir(parents=True, exist_ok=True)
    os.symlink(target, link_path, target_is_directory=target.is_dir())
