"""Images with other images or objects as targets, by code, with plain readings: ADE20K, COCO's other targets, DIV2K."""

import contextlib
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from PIL import Image
from pycocotools.coco import COCO
from torchvision.datasets import CocoDetection, VOCSegmentation
from torchvision.datasets.utils import extract_archive
from torchvision.tv_tensors import Mask

from tests.fakes import reading
from tests.fakes.fake import Case, by, fake, text, zipped
from tests.fakes.mutations import PATHS, change, rearranged
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.scale import enlarged, scaled

Files = dict[str, bytes]

_CLASSES = ("wall", "building, edifice", "sky", "windowpane, window ")  # a real name ends with a space, too


class SplitPairs(reading.Pairs, split=("train", "val")):
    """The splits of all classes here."""


class ADE20K(SplitPairs, VOCSegmentation):  # type: ignore[misc]  # torchvision is untyped
    """What people write over the two folders; samples as VOCSegmentation has them."""

    def read(self, root: Path, split: str = "train") -> None:
        top, folder = root / "ADEChallengeData2016", {"train": "training", "val": "validation"}[split]
        names = sorted(os.listdir(top / "images" / folder))
        self.images = [str(top / "images" / folder / name) for name in names]
        self.targets = [str(top / "annotations" / folder / name.replace(".jpg", ".png")) for name in names]
        lines = (top / "objectInfo150.txt").read_text().splitlines()
        self.classes = [line.split("\t")[4].strip() for line in lines][1:]


@fake(
    "ade20k",
    Case(
        "ADE20KRecord",
        ({}, {"split": "val"}),
        (*by("split", "training", None), {"transforms": print, "transform": print}),
        PATHS,
        theirs=ADE20K,
    ),
)
def ade20k(rng: Generator) -> Files:
    """Photographs of several sizes, a grey one; masks of labels from 0; lists, of which one is read."""
    rows = [f"{number}\t0.1\t9\t4\t{name}" for number, name in enumerate(_CLASSES, 1)]
    files = {
        "objectInfo150.txt": text(["Idx\tRatio\tTrain\tVal\tName", *rows]),
        "sceneCategories.txt": text(["ADE_train_00000001 airport_terminal"]),
    }
    for folder, name, count in (("training", "train", 7), ("validation", "val", 5)):
        for number in range(1, scaled(count) + 1):
            width, stem = 30 + number % 20, f"{folder}/ADE_{name}_{number:08d}"
            photo = picture(rng, width, 24)
            files[f"images/{stem}.jpg"] = jpeg(photo.convert("L") if number == 2 else photo)
            mask = Image.fromarray(enlarged(rng.integers(0, len(_CLASSES) + 1, (24, width), dtype=np.uint8)))
            files[f"annotations/{stem}.png"] = encoded(mask, "PNG")
    return {"ADEChallengeData2016.zip": zipped({f"ADEChallengeData2016/{name}": data for name, data in files.items()})}


_STEMS = ("000000000785", "000000000139", "000000000632", "000000000285", "000000000724")
_CATEGORIES = (
    {"id": 1, "name": "person", "supercategory": "person", "isthing": 1, "color": [220, 20, 60]},
    {"id": 125, "name": "gravel", "supercategory": "ground", "isthing": 0, "color": [124, 74, 181]},
)
_SIZE = (30, 24)


def _photographs(rng: Generator, folder: str, more: int = 0) -> Files:
    """Make the archive of a folder of COCO: a grey photograph, and one that nothing is said of."""
    stems = [*_STEMS, *(f"{1000 + number:012d}" for number in range(more))]
    files = {f"{folder}/{stem}.jpg": jpeg(picture(rng, *_SIZE)) for stem in sorted(stems)}
    files[f"{folder}/{_STEMS[2]}.jpg"] = jpeg(picture(rng, *_SIZE).convert("L"))
    return files | {f"{folder}/000000999999.jpg": jpeg(picture(rng, 9, 9))}


def _unpack_coco(folder: Path) -> None:
    for path in folder.glob("*.zip"):
        extract_archive(path, folder)
    for path in (folder / "annotations").glob("*.zip"):
        extract_archive(path, folder / "annotations")


class CocoStuff(SplitPairs, VOCSegmentation):  # type: ignore[misc]  # torchvision is untyped
    """What people write over the folders of images and masks; samples as VOCSegmentation has them."""

    def read(self, root: Path, split: str = "train") -> None:
        masks = root / "annotations" / f"stuff_{split}2017_pixelmaps"
        names = sorted(os.listdir(masks))
        self.images = [str(root / f"{split}2017" / name.replace(".png", ".jpg")) for name in names]
        self.targets = [str(masks / name) for name in names]


_SPLITS = ({"split": "val"}, {})
_BAD = (*by("split", "val2017", None), {"transforms": print, "transform": print})


@fake("coco_stuff", Case("CocoStuffRecord", _SPLITS, _BAD, PATHS, theirs=CocoStuff), unpack=_unpack_coco)
def coco_stuff(rng: Generator) -> Files:
    """A zip of masks for each split, within the zip of annotations; COCO's own JSON beside it is not read."""
    annotations: Files = {}
    archives: Files = {}
    for split, more in (("train", 1), ("val", scaled(5) - 5)):
        photographs = _photographs(rng, f"{split}2017", more)
        archives[f"{split}2017.zip"] = zipped(photographs)
        name = f"stuff_{split}2017_pixelmaps"
        masks: Files = {}
        for path in photographs:
            if not path.endswith("999999.jpg"):
                pixels = rng.choice(np.array([0, 92, 125, 183], np.uint8), _SIZE[::-1])
                mask = Image.fromarray(enlarged(pixels))
                masks[f"{name}/{Path(path).stem}.png"] = encoded(mask, "PNG")
        annotations[f"annotations/{name}.zip"] = zipped(masks)
        annotations[f"annotations/stuff_{split}2017.json"] = b"not read"
    return {**archives, "stuff_annotations_trainval2017.zip": zipped(annotations)}


class CocoPanoptic(SplitPairs):  # type: ignore[misc]  # torchvision is untyped
    """What people write over the annotation file and the folder of masks."""

    def read(self, root: Path, split: str = "train") -> None:
        folder = root / "annotations"
        found = json.loads((folder / f"panoptic_{split}2017.json").read_bytes())
        self.categories = found["categories"]
        self._annotations = {each["file_name"]: each for each in found["annotations"]}
        names = sorted(self._annotations)
        self.images = [str(root / f"{split}2017" / name.replace(".png", ".jpg")) for name in names]
        self.masks = [str(folder / f"panoptic_{split}2017" / name) for name in names]

    # Any: as above.
    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image = Image.open(self.images[index]).convert("RGB")
        red, green, blue = np.asarray(Image.open(self.masks[index]).convert("RGB"), np.int32).transpose(2, 0, 1)
        ids = Mask(torch.from_numpy(red + 256 * green + 256 * 256 * blue))
        stem = os.path.splitext(os.path.basename(self.images[index]))[0]
        target = {**self._annotations[f"{stem}.png"], "mask": ids}
        return self.transforms(image, target) if self.transforms is not None else (image, target)


_PANOPTIC = {
    **rearranged("images", "images", "one image", by=1),
    "masks reversed": change("masks", lambda masks: masks[::-1]),
}


@fake("coco_panoptic", Case("CocoPanopticRecord", _SPLITS, _BAD, _PANOPTIC, theirs=CocoPanoptic), unpack=_unpack_coco)
def coco_panoptic(rng: Generator) -> Files:
    """A zip of masks and an annotation file for each split; annotations in another order than the images."""
    annotations: Files = {}
    archives: Files = {}
    for split, more in (("train", 1), ("val", scaled(5) - 5)):
        photographs = _photographs(rng, f"{split}2017", more)
        archives[f"{split}2017.zip"] = zipped(photographs)
        masks: Files = {}
        said = []
        for path in [path for path in photographs if not path.endswith("999999.jpg")][::-1]:
            stem, ids = Path(path).stem, rng.choice(2**24, 3, replace=False)
            pixels = ids[rng.integers(0, 3, _SIZE[::-1])]
            colors = np.stack([pixels & 255, pixels >> 8 & 255, pixels >> 16], 2).astype(np.uint8)
            masks[f"panoptic_{split}2017/{stem}.png"] = encoded(Image.fromarray(enlarged(colors)), "PNG")
            segments = [
                {"id": id, "category_id": _CATEGORIES[id % 2]["id"], "iscrowd": 0, "bbox": [1, 2, 3, 4], "area": 9}
                for id in ids.tolist()
            ]
            said.append({"segments_info": segments, "file_name": f"{stem}.png", "image_id": int(stem)})
        document = {"info": {"year": 2018}, "images": [], "annotations": said, "categories": _CATEGORIES}
        annotations[f"annotations/panoptic_{split}2017.json"] = json.dumps(document).encode()
        annotations[f"annotations/panoptic_{split}2017.zip"] = zipped(masks)
    return {**archives, "panoptic_annotations_trainval2017.zip": zipped(annotations)}


class LVIS(SplitPairs, CocoDetection):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's class, with images where LVIS says that they are."""

    def read(self, root: Path, split: str = "train") -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            self._coco = COCO(root / f"lvis_v1_{split}.json")
        self.categories = self._coco.dataset["categories"]
        self.ids = sorted(self._coco.imgs)
        places = [self._coco.imgs[id]["coco_url"].split("/")[-2:] for id in self.ids]
        self.images = [str(root.joinpath(*place)) for place in places]

    # Any: as above.
    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image = Image.open(self.images[index]).convert("RGB")
        id = int(os.path.splitext(os.path.basename(self.images[index]))[0])
        target = self._coco.loadAnns(self._coco.getAnnIds(id))
        return self.transforms(image, target) if self.transforms is not None else (image, target)


_IMAGES = {name: mutation for name, mutation in _PANOPTIC.items() if "image" in name}


@fake("lvis", Case("LVISRecord", _SPLITS, _BAD, _IMAGES, theirs=LVIS))
def lvis(rng: Generator) -> Files:
    """Two folders of images, two annotation files; a validation image in the folder of the training images."""
    train, val = ([*_STEMS[:3]], [*_STEMS[3:], *(f"{1000 + number:012d}" for number in range(scaled(2)))])
    places = dict.fromkeys(val, "val2017") | dict.fromkeys((*train, val[0]), "train2017")
    files: Files = {}
    for folder in ("train2017", "val2017"):
        photographs = {
            f"{folder}/{stem}.jpg": jpeg(picture(rng, *_SIZE)) for stem in sorted(places) if places[stem] == folder
        }
        files[f"{folder}.zip"] = zipped(photographs | {f"{folder}/000000999999.jpg": jpeg(picture(rng, 9, 9))})
    for split, stems in (("train", train), ("val", val)):
        images = [
            {"id": int(stem), "coco_url": f"http://images/{places[stem]}/{stem}.jpg", "neg_category_ids": [7]}
            for stem in stems
        ]
        objects = [
            {
                "id": 900 - number,
                "image_id": int(stem),
                "category_id": 1 + number % 3,
                "bbox": [1.5, 2.0, 8.0, 6.0],
                "area": 24.0,
                "segmentation": [[1.5, 2.0, 9.5, 2.0, 9.5, 8.0]],
            }
            for number, stem in enumerate([*stems[:-1], *stems[:2]])  # the last image has none
        ]
        categories = [{"id": id, "name": name, "frequency": "r"} for id, name in enumerate(("acorn", "bun", "cup"), 1)]
        document = {"images": images, "annotations": objects, "categories": categories}
        files[f"lvis_v1_{split}.json.zip"] = zipped({f"lvis_v1_{split}.json": json.dumps(document).encode()})
    return files


_TRACKS = {
    **{f"{kind}_x{n}": (f"{kind}_X{n}", f"{kind}/X{n}", f"x{n}") for kind in ("bicubic", "unknown") for n in (2, 3, 4)},
    "bicubic_x8": ("x8", "x8", "x8"),
    "mild_x4": ("mild", "mild", "x4m"),
    "difficult_x4": ("difficult", "difficult", "x4d"),
}
"""The end of the zip's name, the end of the folder, and what the names of the images end with."""


class PlainDIV2K(reading.Pairs, split=("train", "val"), track=tuple(_TRACKS)):
    """What people write over the folders."""

    def read(self, root: Path, split: str = "train", track: str = "bicubic_x2") -> None:
        start = f"DIV2K_{'train' if split == 'train' else 'valid'}_"
        folder = root / f"{start}LR_{_TRACKS[track][1]}"
        names = sorted(os.listdir(folder))
        self.images = [str(folder / name) for name in names]
        self.targets = [str(root / f"{start}HR" / f"{name[:4]}.png") for name in names]

    # Any: what the transforms make of them.
    def __getitem__(self, index: int) -> tuple[Any, Any]:
        low: Any = Image.open(self.images[index]).convert("RGB")
        high: Any = Image.open(self.targets[index]).convert("RGB")
        return (low, high) if self.transforms is None else self.transforms(low, high)


@fake(
    "div2k",
    Case(
        "DIV2KRecord",
        ({}, {"split": "val", "track": "unknown_x4"}, {"track": "bicubic_x8"}, {"split": "val", "track": "mild_x4"}),
        (*by("split", "test", None), *by("track", "wild_x4", None)),
        PATHS,
        theirs=PlainDIV2K,
    ),
)
def div2k(rng: Generator) -> dict[str, bytes]:
    """Numbers go on from one split to the next."""
    files = {}
    for split, first, count in (("train", 1, 4), ("valid", 801, 2)):
        photos = {first + number: picture(rng, 48, 32 + 8 * (number % 2)) for number in range(scaled(count))}
        high = {f"DIV2K_{split}_HR/{number:04d}.png": encoded(photo, "PNG") for number, photo in photos.items()}
        files[f"DIV2K_{split}_HR.zip"] = zipped(high)
        for track, (archive, folder, ending) in _TRACKS.items():
            numbers = list(photos)[: None if track == "bicubic_x2" else count]
            low = {number: encoded(photos[number].reduce(int(track[-1])), "PNG") for number in numbers}
            names = {number: f"DIV2K_{split}_LR_{folder}/{number:04d}{ending}.png" for number in numbers}
            files[f"DIV2K_{split}_LR_{archive}.zip"] = zipped({names[number]: low[number] for number in numbers})
    return files
