"""CUB-200-2011 by code: the real names and layout, generated pictures, as a tree or as the two archives.

The traps of the real one are in it: ``images.txt`` is not sorted within a class, some boxes stick out of their image,
a few attribute lines have extra columns, and ``attributes.txt`` lies beside ``CUB_200_2011/``.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw
from torchvision.datasets import ImageFolder
from torchvision.datasets.folder import default_loader
from torchvision.datasets.utils import verify_str_arg

from examples.birds import picture  # `scale.SIDE` has its own way in `build`
from recordzoo.net.url import RemoteFile
from tests.fakes.fake import Case, by, fake, tar, text
from tests.fakes.folder import write_tree
from tests.fakes.mutations import SAMPLES
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
    """The files and masks, by their names in the archives, and the images: names relative to ``images/``, by id."""

    files: Mapping[str, bytes]
    masks: Mapping[str, bytes]
    images: Mapping[int, str]

    def write_archive(self, folder: Path) -> Path:
        """Write ``CUB_200_2011.tgz``."""
        (folder / ARCHIVE).write_bytes(tar(self.files))
        return folder / ARCHIVE

    def write_tree(self, folder: Path, without: Iterable[str] = ()) -> Path:
        """Lay out what extracting the archive gives: ``CUB_200_2011/`` and, beside it, ``attributes.txt``."""
        return write_tree(folder, {name: data for name, data in self.files.items() if name not in set(without)})

    def write_mask_tree(self, folder: Path) -> Path:
        """Lay out ``segmentations/``."""
        return write_tree(folder, self.masks)


def build(
    num_classes: int = 3, images_per_class: int = 4, *, size: tuple[int, int] = (60, 45), seed: int = 0
) -> FakeCUB200:
    """Make the dataset. Pictures of (420, 320) have 20 to 60 KB; with `scale.SIDE`, as large as the real ones."""
    images_per_class = scaled(images_per_class)
    size = (size[0] * (1 + SIDE // 2), size[1] * (1 + SIDE // 2))
    rng = np.random.default_rng(seed)
    species = [*SPECIES, *(f"Imagined_Bird_{k:03d}" for k in range(len(SPECIES) + 1, num_classes + 1))]
    classes = [f"{k:03d}.{name}" for k, name in enumerate(species[:num_classes], 1)]
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


def remote_files(folder: Path, url: Callable[[str], str] = lambda name: "") -> tuple[RemoteFile, ...]:
    """Describe the archive in `folder` as the catalogue describes the real one: name, size and true hash."""
    data = (folder / ARCHIVE).read_bytes()
    urls = (url(ARCHIVE),) if url(ARCHIVE) else ()
    return (RemoteFile(ARCHIVE, urls, size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest()),)


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
        "attributes.txt": text(f"{k} {name}" for k, name in enumerate(ATTRIBUTE_NAMES, 1)),
        folder + "README": b"Generated pictures in the layout of CUB-200-2011.\n",
        folder + "images.txt": text(f"{i} {name}" for i, name in images.items()),
        folder + "image_class_labels.txt": text(f"{i} {label_of[images[i].split('/')[0]]}" for i in ids),
        folder + "train_test_split.txt": text(f"{i} {i % 2}" for i in ids),
        folder + "classes.txt": text(f"{k} {name}" for name, k in label_of.items()),
        folder + "bounding_boxes.txt": text(
            f"{i} " + " ".join(f"{value:.1f}" for value in box) for i, box in boxes.items()
        ),
        folder + "parts/parts.txt": text(f"{k} {name}" for k, name in enumerate(PART_NAMES, 1)),
        folder + "parts/part_locs.txt": text(
            f"{i} {k + 1} {points[n, k, 0]:.1f} {points[n, k, 1]:.1f} {visible[n, k]}"
            for n, i in enumerate(ids)
            for k in range(15)
        ),
        folder + "attributes/certainties.txt": b"1 not visible\n2 guessing\n3 probably\n4 definitely\n",
        folder + "attributes/image_attribute_labels.txt": text(
            f"{i} {k + 1} {present[n, k]} {_EXTRA.get((i, k), '')}{1 + (i + k) % 4} {k % 70 / 7:.3f}"
            for n, i in enumerate(ids)
            for k in range(312)
        ),
    }


def _mask(size: tuple[int, int], box: tuple[float, float, float, float]) -> bytes:
    """Draw a mask as the real ones are: 8-bit gray, how many of five annotators said "bird", times 51."""
    mask = Image.new("L", size)
    draw = ImageDraw.Draw(mask)
    draw.ellipse(box, fill=204)
    draw.point((size[0] // 2, size[1] // 2), fill=255)
    return encoded(mask, "PNG")


class CUB200(ImageFolder):
    """The dataset as people write it themselves over ImageFolder."""

    # Any: torchvision's own arguments, and targets of several kinds.
    def __init__(
        self,
        root: Any,
        transform: Any = None,
        target_transform: Any = None,
        loader: Any = default_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
        *,
        split: str = "train",
        target_type: Any = "category",
    ) -> None:
        self.split = verify_str_arg(split, "split", ("train", "test", "all"))
        for kind in target_type if isinstance(target_type, list) else [target_type]:
            verify_str_arg(kind, "target_type", _KINDS)
        self._top, self._kinds = Path(root, "CUB_200_2011"), target_type
        super().__init__(self._top / "images", transform, target_transform, loader, is_valid_file, allow_empty)
        self.root = root
        self._id_of = {name: number for number, name in self._rows("images.txt")}
        flags = dict(self._rows("train_test_split.txt"))
        wanted = {"train": "1", "test": "0", "all": "01"}[split]
        self.samples = self.imgs = [sample for sample in self.samples if flags[self._id(sample[0])] in wanted]
        self.targets = [label for _, label in self.samples]
        self.image_ids = np.array([int(self._id(path)) for path, _ in self.samples])
        self.part_names = [" ".join(words) for _, *words in self._rows("parts/parts.txt")]
        self.attribute_names = [name for _, name in self._rows("../attributes.txt")]

    def _rows(self, name: str) -> list[list[str]]:
        return [line.split() for line in (self._top / name).read_text().splitlines()]

    def _id(self, path: str) -> str:
        return self._id_of["/".join(Path(path).parts[-2:])]

    # Any: as above.
    def _target(self, kind: str, path: str, label: int) -> Any:
        if kind == "category":
            return label
        if kind == "segmentation":
            return Image.open(path.replace("CUB_200_2011/images", "segmentations").replace(".jpg", ".png"))
        file = {"bbox": "bounding_boxes", "parts": "parts/part_locs", "attributes": "attributes/image_attribute_labels"}
        rows = [row for row in self._rows(f"{file[kind]}.txt") if row[0] == self._id(path)]
        if kind == "attributes":
            return torch.tensor([int(present) for _, _, present, *_ in rows], dtype=torch.uint8)
        numbers = torch.tensor([[float(cell) for cell in row[1:]] for row in rows])
        return numbers[0] if kind == "bbox" else numbers[:, 1:]

    # Any: as above.
    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, label = self.samples[index]
        several = isinstance(self._kinds, list)
        targets = tuple(self._target(kind, path, label) for kind in (self._kinds if several else [self._kinds]))
        image, target = self.loader(path), targets if several else targets[0]
        image = image if self.transform is None else self.transform(image)
        return image, target if self.target_transform is None else self.target_transform(target)

    def extra_repr(self) -> str:
        return f"Split: {self.split}"


_KINDS = ["category", "bbox", "parts", "attributes", "segmentation"]
_ARGUMENTS = ({}, *by("split", "test", "all"), *by("target_type", *_KINDS[1:], ["bbox"], _KINDS))
_BAD = (*by("split", "val", 1), {"target_type": "mask"})


@fake("cub200", Case("CUB200Record", _ARGUMENTS, _BAD, SAMPLES, theirs=CUB200))
def cub200(_: np.random.Generator) -> dict[str, bytes]:
    """Both archives."""
    made = build()
    return {ARCHIVE: tar(made.files), MASK_ARCHIVE: tar(made.masks)}
