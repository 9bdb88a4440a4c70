"""Places365 by code: two archives of lists, and one of images for each split and size."""

from pathlib import Path

import numpy as np
from torchvision.datasets.utils import extract_archive

from tests.fakes.fake import Case, Fake, md5, tar
from tests.fakes.mutations import IMGS
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.scale import scaled

CATEGORIES = ("/a/airfield", "/a/apartment_building/outdoor", "/b/bakery/shop", "/b/bakery-hall", "/z/zen_garden")
LABELS = (0, 1, 3, 2, 4)  # which are not quite in the order of the names
SPLITS = ("train-standard", "train-challenge", "val", "test")
WHY = "torchvision does not say what it looked for; nor does it know of records, or of the command that makes them"


def _list_name(split: str) -> str:
    return f"places365_{split.replace('-', '_')}.txt"


def _build() -> Fake:
    rng = np.random.default_rng(0)
    categories = "".join(f"{name} {label}\n" for name, label in zip(CATEGORIES, LABELS, strict=True)).encode()
    lists: dict[str, bytes] = {}
    images: dict[str, bytes] = {}
    for split in SPLITS:
        kind, _, variant = split.partition("-")
        if variant:
            rows = [
                (f"{name}/{number:08d}.jpg", label)
                for name, label in zip(CATEGORIES, LABELS, strict=True)
                for number in (1, 5, *([7] if variant == "challenge" else range(8, 6 + scaled(2))))
            ]
            rows = [rows[place] for place in rng.permutation(len(rows)).tolist()]
        else:
            rows = [(f"Places365_{kind}_{number:08d}.jpg", LABELS[number % 5]) for number in range(1, 7)]
        lines = [name if split == "test" else f"{name} {label}" for name, label in rows]
        lists[_list_name(split)] = "\n".join(lines).encode() + b"\n" * (kind == "train")
        for size, width in (("large", 40), ("256", 24)):
            folder, ending = ("data_", f"places365{variant}") if variant else (f"{kind}_", "")
            names = [f"{folder}{size}/{name.lstrip('/')}" for name, _ in sorted(rows)]
            files = {name: jpeg(picture(rng, width, 24)) for name in names}
            files[names[1]] = encoded(picture(rng, width, 24).convert("L"), "JPEG")
            images[f"{'_'.join(filter(None, (kind, size, ending)))}.tar"] = tar(files, compress=False)
    held = {"standard": (SPLITS[0], "val", "test"), "challenge": (SPLITS[1], "val", "test")}
    filelists = {
        f"filelist_places365-{variant}.tar": tar(
            {
                "categories_places365.txt": categories,
                **{_list_name(split): lists[_list_name(split)] for split in splits},
            },
            compress=False,
        )
        for variant, splits in held.items()
    }
    attributes = {
        "_CATEGORIES_META": ("categories_places365.txt", md5(categories)),
        "_FILE_LIST_META": {split: (_list_name(split), md5(lists[_list_name(split)])) for split in SPLITS},
    }
    arguments = [{"split": split, "small": small} for split in SPLITS for small in (False, True)]
    arguments[0] = {}
    case = Case(
        "Places365Record",
        arguments,
        ({"split": "train"}, {"split": None}),
        IMGS,
        attributes,
        differences=((r"^The file \S+ does not exist or is corrupted", "no records and no raw data in", WHY),),
    )
    return Fake("places365", {**filelists, **images}, [case], unpack=_unpack)


def _unpack(folder: Path) -> None:
    """Unpack each archive, and give the folders of training images their names, as torchvision does."""
    for path in sorted(folder.glob("*.tar")):
        extract_archive(path, folder)
        variant = path.stem.rpartition("places365")[2]
        for name in ("data_large", "data_256"):
            if (folder / name).exists():
                (folder / name).rename(folder / f"{name}_{variant}")


FAKES = (_build(),)
