"""Places365 by code: two archives of lists, and one of images for each split and size."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.random import Generator
from torchvision.datasets.utils import extract_archive

from tests.fakes.fake import Case, by, fake, md5, tar, text
from tests.fakes.mutations import IMGS
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.scale import scaled

# The labels are not quite in the order of the names.
CATEGORIES = {
    "/a/airfield": 0,
    "/a/apartment_building/outdoor": 1,
    "/b/bakery/shop": 3,
    "/b/bakery-hall": 2,
    "/z/zen_garden": 4,
}
SPLITS = ("train-standard", "train-challenge", "val", "test")
_NAMES = {split: f"places365_{split.replace('-', '_')}.txt" for split in SPLITS}
_CATEGORIES_FILE = text(f"{name} {label}" for name, label in CATEGORIES.items())
_LISTS: dict[str, bytes] = {}


def _rows(rng: Generator, split: str) -> list[tuple[str, int]]:
    kind, _, variant = split.partition("-")
    if not variant:
        labels = list(CATEGORIES.values())
        return [(f"Places365_{kind}_{number:08d}.jpg", labels[number % 5]) for number in range(1, 7)]
    numbers = (1, 5, *([7] if variant == "challenge" else range(8, 6 + scaled(2))))
    rows = [(f"{name}/{number:08d}.jpg", label) for name, label in CATEGORIES.items() for number in numbers]
    return [rows[place] for place in rng.permutation(len(rows)).tolist()]


def _unpack(folder: Path) -> None:
    """Unpack each archive, and give the folders of training images their names, as torchvision does."""
    for path in sorted(folder.glob("*.tar")):
        extract_archive(path, folder)
        variant = path.stem.rpartition("places365")[2]
        for name in ("data_large", "data_256"):
            if (folder / name).exists():
                (folder / name).rename(folder / f"{name}_{variant}")


def _hashes(_: Mapping[str, bytes]) -> Mapping[str, Any]:
    return {
        "_CATEGORIES_META": ("categories_places365.txt", md5(_CATEGORIES_FILE)),
        "_FILE_LIST_META": {split: (name, md5(_LISTS[name])) for split, name in _NAMES.items()},
    }


_ARGUMENTS = [{"split": split, "small": small} for split in SPLITS for small in (False, True)]
_WHY = "torchvision does not say what it looked for; nor does it know of records, or of the command that makes them"


@fake(
    "places365",
    Case(
        "Places365Record",
        [{}, *_ARGUMENTS[1:]],
        by("split", "train", None),
        IMGS,
        _hashes,
        differences=((r"^The file \S+ does not exist or is corrupted", "no records and no raw data in", _WHY),),
    ),
    unpack=_unpack,
)
def places365(rng: Generator) -> dict[str, bytes]:
    """Lists that begin with "/", a grey image in each archive."""
    images: dict[str, bytes] = {}
    for split in SPLITS:
        kind, _, variant = split.partition("-")
        rows = _rows(rng, split)
        lines = [name if split == "test" else f"{name} {label}" for name, label in rows]
        _LISTS[_NAMES[split]] = "\n".join(lines).encode() + b"\n" * (kind == "train")
        for size, width in (("large", 40), ("256", 24)):
            folder, ending = ("data_", f"places365{variant}") if variant else (f"{kind}_", "")
            names = [f"{folder}{size}/{name.lstrip('/')}" for name, _ in sorted(rows)]
            files = {name: jpeg(picture(rng, width, 24)) for name in names}
            files[names[1]] = encoded(picture(rng, width, 24).convert("L"), "JPEG")
            images[f"{'_'.join(filter(None, (kind, size, ending)))}.tar"] = tar(files, compress=False)
    lists = {}
    for variant in ("standard", "challenge"):
        held = [_NAMES[split] for split in (f"train-{variant}", "val", "test")]
        members = {"categories_places365.txt": _CATEGORIES_FILE, **{name: _LISTS[name] for name in held}}
        lists[f"filelist_places365-{variant}.tar"] = tar(members, compress=False)
    return {**lists, **images}
