"""CUB-200-2011 by code: the real names and layout, generated pictures, as a tree or as the two archives.

The traps of the real one are in it: ``images.txt`` is not sorted within a class, some boxes stick out of their image,
a few attribute lines have extra columns, and ``attributes.txt`` lies beside ``CUB_200_2011/``.
"""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from examples.birds import picture  # `scale.SIDE` has its own way in `build`
from recordzoo.net.url import RemoteFile
from tests.fakes.pictures import encoded, jpeg
from tests.fakes.scale import SIDE, scaled

PARTS = (
    "back beak belly breast crown forehead left_eye left_leg left_wing nape right_eye right_leg right_wing tail throat"
)
PART_NAMES = tuple(name.replace("_", " ") for name in PARTS.split())
ATTRIBUTE_NAMES = tuple(
    ["has_bill_shape::curved_(up_or_down)", "has_bill_shape::dagger"] + [f"has_trait::value_{k}" for k in range(3, 313)]
)
SPECIES = ("Black_footed_Albatross", "Laysan_Albatross", "Sooty_Albatross", "Groove_billed_Ani", "Crested_Auklet")

_EXTRA = {(2, 9): "0 ", (5, 300): "0 4 "}  # lines with columns too many, by image id and attribute

ARCHIVE = "CUB_200_2011.tgz"
MASK_ARCHIVE = "segmentations.tgz"
IMAGES = "CUB_200_2011/images"


@dataclass(frozen=True)
class FakeCUB200:
    """The files, by their names in the archives, and what they say.

    Attributes:
        files: ``attributes.txt`` and ``CUB_200_2011/...``, the images among them.
        masks: ``segmentations/...``.
        images: The same in image order: name relative to ``images/``, by id.
    """

    files: Mapping[str, bytes]
    masks: Mapping[str, bytes]
    images: Mapping[int, str]

    def write_archive(self, folder: Path, without: Iterable[str] = ()) -> Path:
        """Write ``CUB_200_2011.tgz``; `without` leaves members out."""
        left_out = set(without)
        members = {name: data for name, data in self.files.items() if name not in left_out}
        return write_tgz(folder / ARCHIVE, members)

    def write_mask_archive(self, folder: Path) -> Path:
        """Write ``segmentations.tgz``."""
        return write_tgz(folder / MASK_ARCHIVE, self.masks)

    def write_tree(self, folder: Path, without: Iterable[str] = ()) -> Path:
        """Lay out what extracting the archive gives: ``CUB_200_2011/`` and, beside it, ``attributes.txt``."""
        left_out = set(without)
        return _write_files(folder, {name: data for name, data in self.files.items() if name not in left_out})

    def write_mask_tree(self, folder: Path) -> Path:
        """Lay out ``segmentations/``."""
        return _write_files(folder, self.masks)


def build(
    num_classes: int = 3, images_per_class: int = 4, *, size: tuple[int, int] = (60, 45), seed: int = 0
) -> FakeCUB200:
    """Make the dataset. Pictures of (420, 320) have 20 to 60 KB; with `scale.SIDE`, as large as the real ones."""
    images_per_class = scaled(images_per_class, "cub200")
    size = (size[0] * (1 + SIDE // 2), size[1] * (1 + SIDE // 2))
    rng = np.random.default_rng(seed)
    classes = [f"{k + 1:03d}.{_species(k)}" for k in range(num_classes)]
    images: dict[int, str] = {}
    files: dict[str, bytes] = {}
    masks: dict[str, bytes] = {}
    boxes: dict[int, tuple[float, ...]] = {}
    for label, folder in enumerate(classes):
        numbers = rng.permutation(images_per_class) + 1  # in images.txt, a class is in no order
        for number in numbers.tolist():
            image_id = len(images) + 1
            stem = f"{folder[4:].title()}_{number:04d}_{image_id + 17}"
            width, height = (int(side * rng.uniform(0.8, 1.2)) for side in size)
            x, y = (round(float(side * rng.uniform(0.1, 0.4))) for side in (width, height))
            w, h = (round(float(side * rng.uniform(0.4, 0.9))) for side in (width, height))  # some stick out
            boxes[image_id] = (x, y, w, h)
            images[image_id] = f"{folder}/{stem}.jpg"
            photo = picture(rng, width, height, label / num_classes, boxes[image_id][:4])  # type: ignore[arg-type]
            files[f"CUB_200_2011/images/{folder}/{stem}.jpg"] = jpeg(photo)
            masks[f"segmentations/{folder}/{stem}.png"] = _mask((width, height), (x, y, x + w - 1, y + h - 1))
    files = {**_annotations(rng, images, classes, boxes), **files}
    return FakeCUB200(files, masks, images)


def remote_files(folder: Path, url: Callable[[str], str] = lambda name: "", part: str = "") -> tuple[RemoteFile, ...]:
    """Describe the archive in `folder` as the catalogue describes the real one: name, size and true hash.

    Args:
        folder: Where `FakeCUB200.write_archive` put it.
        url: Where a server has a file of that name; none by default.
        part: "" or "segmentations".
    """
    path = folder / (MASK_ARCHIVE if part else ARCHIVE)
    data = path.read_bytes()
    urls = (url(path.name),) if url(path.name) else ()
    return (RemoteFile(path.name, urls, size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest()),)


def _annotations(
    rng: np.random.Generator, images: Mapping[int, str], classes: list[str], boxes: Mapping[int, tuple[float, ...]]
) -> dict[str, bytes]:
    label_of = {name: number for number, name in enumerate(classes, 1)}
    ids = list(images)
    visible = rng.integers(0, 2, (len(ids), 15))
    points = (rng.random((len(ids), 15, 2)) * 300).round(1) * visible[:, :, None]  # an unseen part is at 0.0 0.0
    present = rng.integers(0, 2, (len(ids), 312))
    folder = "CUB_200_2011/"
    return {
        "attributes.txt": _lines(f"{k} {name}" for k, name in enumerate(ATTRIBUTE_NAMES, 1)),
        folder + "README": b"Generated pictures in the layout of CUB-200-2011.\n",
        folder + "images.txt": _lines(f"{i} {name}" for i, name in images.items()),
        folder + "image_class_labels.txt": _lines(f"{i} {label_of[images[i].split('/')[0]]}" for i in ids),
        folder + "train_test_split.txt": _lines(f"{i} {i % 2}" for i in ids),
        folder + "classes.txt": _lines(f"{k} {name}" for name, k in label_of.items()),
        folder + "bounding_boxes.txt": _lines(
            f"{i} " + " ".join(f"{value:.1f}" for value in box) for i, box in boxes.items()
        ),
        folder + "parts/parts.txt": _lines(f"{k} {name}" for k, name in enumerate(PART_NAMES, 1)),
        folder + "parts/part_locs.txt": _lines(
            f"{i} {k + 1} {points[n, k, 0]:.1f} {points[n, k, 1]:.1f} {visible[n, k]}"
            for n, i in enumerate(ids)
            for k in range(15)
        ),
        folder + "attributes/certainties.txt": b"1 not visible\n2 guessing\n3 probably\n4 definitely\n",
        folder + "attributes/image_attribute_labels.txt": _lines(
            f"{i} {k + 1} {present[n, k]} {_EXTRA.get((i, k), '')}{1 + (i + k) % 4} {k % 70 / 7:.3f}"
            for n, i in enumerate(ids)
            for k in range(312)
        ),
    }


def _species(number: int) -> str:
    return SPECIES[number] if number < len(SPECIES) else f"Imagined_Bird_{number + 1:03d}"


def _mask(size: tuple[int, int], box: tuple[float, float, float, float]) -> bytes:
    """Draw a mask as the real ones are: 8-bit gray, how many of five annotators said "bird", times 51."""
    mask = Image.new("L", size)
    draw = ImageDraw.Draw(mask)
    draw.ellipse(box, fill=204)
    draw.point((size[0] // 2, size[1] // 2), fill=255)
    return encoded(mask, "PNG")


def _lines(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _write_files(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def write_tgz(path: Path, members: Mapping[str, bytes]) -> Path:
    """Write a tar.gz with its folders as members, the same bytes every time."""
    folders = {parent.as_posix(): b"" for name in members for parent in reversed(Path(name).parents[:-1])}
    with (
        path.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=1) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as tar,
    ):
        for name, data in {**folders, **members}.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            if name in folders:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info, io.BytesIO(data))
    return path
