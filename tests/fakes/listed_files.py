"""Datasets of listed files by code, with the oddities of the real ones."""

import functools
import json
from typing import Any

import numpy as np
from numpy.random import Generator
from PIL import Image
from torchvision.datasets import SUN397

from tests.fakes.fake import Case, by, fake, md5, tar, text, zipped
from tests.fakes.matlab import mat
from tests.fakes.mutations import FILE_SAMPLES, FILES
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.scale import scaled

Files = dict[str, bytes]


@functools.cache
def _scene(rng: Generator, split: str, number: int) -> bytes:
    return encoded(picture(rng, 24, 16).convert("RGBA"), "PNG")


@fake("clevr", Case("CLEVRClassificationRecord", ({}, *by("split", "val", "test")), by("split", "all", None), FILES))
def clevr(rng: Generator) -> Files:
    """RGBA images in a folder for each split, and JSON files of scenes for two of them, not in order."""
    top = "CLEVR_v1.0"
    files = {f"{top}/README.txt": b"not read", f"{top}/questions/CLEVR_val_questions.json": b'{"questions": []}'}
    counts_of = {"train": scaled(1) * (3, 10, 4, 7, 3, 6), "val": (5, 3, 8), "test": (4, 9, 3, 5)}
    for split, counts in counts_of.items():
        scenes = []
        for number, count in reversed(list(enumerate(counts))):
            name = f"CLEVR_{split}_{number:06d}.png"
            files[f"{top}/images/{split}/{name}"] = _scene(rng, split, number % 20)
            things = [{"shape": "cube", "3d_coords": [1.0, 2.0, 0.7], "pixel_coords": [9, 9, 11.5]}] * count
            relations = {"left": [[] for _ in things], "behind": [[] for _ in things]}
            scene = {"image_index": number, "objects": things, "relationships": relations, "image_filename": name}
            scenes.append({**scene, "split": split, "directions": {"left": [-0.6, -0.7, 0.0]}})
        if split != "test":
            found = {"info": {"split": split, "version": "1.0"}, "scenes": scenes[::2] + scenes[1::2]}
            files[f"{top}/scenes/CLEVR_{split}_scenes.json"] = json.dumps(found).encode()
    return {f"{top}.zip": zipped(files)}


_DTD = ("train", "val", "test")


@fake(
    "dtd",
    Case(
        "DTDRecord",
        [{}, *({"split": split, "partition": partition} for split in _DTD for partition in (1, 4, 10))],
        ({"split": "all"}, {"partition": 12.5}),
        FILES,
    ),
)
def dtd(rng: Generator) -> Files:
    """Class folders, and ten partitions as lists of `<class>/<file>`."""
    numbers = (2, 17, 40, 85, 101, *range(131, 126 + scaled(6)))
    classes = ("banded", "blotchy", "braided", "zigzagged")
    names = [f"{name}/{name}_{number:04d}.jpg" for name in classes for number in numbers]
    files = {f"dtd/images/{name}": jpeg(picture(rng, 24, 20)) for name in names}
    files["dtd/imdb/imdb.mat"] = b"not read"
    files["dtd/labels/labels_joint_anno.txt"] = b"banded/banded_0002.jpg banded\n"
    for partition in range(1, 11):
        order = rng.permutation(names).tolist()
        for number, split in enumerate(_DTD):
            listed = sorted(order[scaled(8 * number) : scaled(8 * number + 8)])
            files[f"dtd/labels/{split}{partition}.txt"] = text(listed)
    return {"dtd-r1.0.1.tar.gz": tar(files)}


_AIRCRAFT = {
    "variant": ("variants", ("707-320", "737-200", "A300B4", "Spitfire", "Tu-134")),
    "family": ("families", ("Boeing 707", "Boeing 737", "A300", "Spitfire", "Tu-134")),
    "manufacturer": ("manufacturers", ("Boeing", "Boeing", "Airbus", "Supermarine", "Tupolev")),
}
_AIRCRAFT_SPLITS = ("train", "val", "test", "trainval")


@fake(
    "fgvc_aircraft",
    Case(
        "FGVCAircraftRecord",
        [{}, *({"split": split, "annotation_level": level} for split in _AIRCRAFT_SPLITS for level in _AIRCRAFT)],
        ({"split": "all"}, *by("annotation_level", "model", None)),
        FILES,
    ),
)
def fgvc_aircraft(rng: Generator) -> Files:
    """Numbered photographs, and for each split three lists of `<number> <class with spaces>`."""
    data = "fgvc-aircraft-2013b/data"
    stems = [f"{number:07d}" for number in rng.permutation(2_000_000)[: scaled(15)].tolist()]
    files = {f"{data}/images/{stem}.jpg": jpeg(picture(rng, 40, 30)) for stem in stems}
    sets = {"train": stems[: scaled(5)], "val": stems[scaled(5) : scaled(9)], "test": stems[scaled(9) :]}
    sets["trainval"] = stems[: scaled(9)][::-1]
    for level, (plural, classes) in _AIRCRAFT.items():
        files[f"{data}/{plural}.txt"] = text(sorted(dict.fromkeys(classes)))
        for split, listed in sets.items():
            lines = (f"{stem} {classes[int(stem) % len(classes)]}" for stem in listed)
            files[f"{data}/images_{level}_{split}.txt"] = text(lines)
    files |= {f"{data}/images_{split}.txt": text(listed) for split, listed in sets.items()}
    files[f"{data}/images_box.txt"] = text(f"{stem} 1 2 30 20" for stem in stems)
    return {"fgvc-aircraft-2013b.tar.gz": tar(files)}


_FLOWERS = {"image": "102flowers.tgz", "label": "imagelabels.mat", "setid": "setid.mat"}


@fake(
    "flowers102",
    Case(
        "Flowers102Record",
        ({}, *by("split", "val", "test")),
        by("split", "all", 0),
        FILES,
        lambda files: {"_file_dict": {kind: (name, md5(files[name])) for kind, name in _FLOWERS.items()}},
    ),
)
def flowers102(rng: Generator) -> Files:
    """Photographs in one folder, labels from 1 and split ids in MATLAB files."""
    count = scaled(20)
    ids = rng.permutation(np.arange(1, 1 + count)).astype(np.uint16)
    images = {f"jpg/image_{place + 1:05d}.jpg": jpeg(picture(rng, 21 + place % 20, 30)) for place in range(count)}
    return {
        "102flowers.tgz": tar(images),
        "imagelabels.mat": mat(labels=rng.integers(1, 103, count).astype(np.uint8)),
        "setid.mat": mat(trnid=ids[: scaled(5)], valid=ids[scaled(5) : scaled(10)], tstid=ids[scaled(10) :]),
    }


@fake("food101", Case("Food101Record", ({}, {"split": "test"}), by("split", "val", None), FILES))
def food101(rng: Generator) -> Files:
    """Class folders, and for each split a JSON file that names the images of each class, unsorted."""
    classes = ("waffles", "apple_pie", "french_fries", "cup_cakes")  # the real files have an order of their own, too
    files = {"food-101/README.txt": b"not read", "food-101/images/.DS_Store": b"not an image"}
    listed: dict[str, dict[str, list[str]]] = {"train": {}, "test": {}}
    for name in classes:
        stems = [f"{name}/{number}" for number in rng.permutation(4_000_000)[: scaled(6)].tolist()]
        files |= {f"food-101/images/{stem}.jpg": jpeg(picture(rng, 26, 20)) for stem in stems}
        listed["train"][name], listed["test"][name] = stems[: scaled(4)], stems[scaled(4) :]
    stem = listed["train"]["apple_pie"][1]
    files[f"food-101/images/{stem}.jpg"] = encoded(picture(rng, 20, 20).convert("L"), "JPEG")
    files[f"food-101/images/apple_pie/._{stem.partition('/')[2]}.jpg"] = b"what macOS leaves"
    files["food-101/meta/classes.txt"] = text(sorted(classes))
    for split, stems_of in listed.items():
        files[f"food-101/meta/{split}.json"] = json.dumps(stems_of).encode()
        files[f"food-101/meta/{split}.txt"] = text(stem for stems in stems_of.values() for stem in stems)
    return {"food-101.tar.gz": tar(files)}


_CARS = ("AM General Hummer SUV 2000", "Acura RL Sedan 2012", "Ram C/V Cargo Van Minivan 2012", "smart fortwo 2012")
_CAR_FIELDS = ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "fname")


def _car_annotations(rng: Generator, names: list[str]) -> bytes:
    rows = np.zeros((1, len(names)), dtype=[(field, object) for field in _CAR_FIELDS])
    for number, name in enumerate(names):
        label = np.uint8(rng.integers(1, len(_CARS) + 1))
        rows[0, number] = (np.uint16(1), np.uint16(2), np.uint16(300), np.uint16(200), label, name)
    return mat(annotations=rows)


@fake(
    "stanford_cars", Case("StanfordCarsRecord", ({}, {"split": "test"}), by("split", "val", 1), mutations=FILE_SAMPLES)
)
def stanford_cars(rng: Generator) -> Files:
    """Photographs and MATLAB annotations, in an order that is not that of the names."""
    archives, annotations = {}, {}
    for split, count in (("train", scaled(6)), ("test", scaled(5))):
        names = [f"{number:05d}.jpg" for number in range(1, count + 1)]
        images = {f"cars_{split}/{name}": jpeg(picture(rng, 20 + len(name), 24)) for name in names}
        images[f"cars_{split}/00003.jpg"] = encoded(picture(rng, 22, 21).convert("L"), "JPEG")
        images[f"cars_{split}/99999.jpg"] = jpeg(picture(rng, 9, 9))  # in no list
        archives[f"cars_{split}.tgz"] = tar(images)
        annotations[split] = _car_annotations(rng, rng.permutation(names).tolist())
    devkit = {
        "devkit/README.txt": b"not read",
        "devkit/cars_meta.mat": mat(class_names=np.array([_CARS], dtype=object)),
        "devkit/cars_train_annos.mat": annotations["train"],
        "devkit/cars_test_annos.mat": b"not read: it has no labels",
    }
    return {**archives, "cars_test_annos_withlabels.mat": annotations["test"], "car_devkit.tgz": tar(devkit)}


class SortedSUN397(SUN397):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's class, sorted: its own order is that of the file system."""

    # Any: its own arguments.
    @functools.wraps(SUN397.__init__)
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        pairs = zip(self._image_files, self._labels, strict=True)
        ordered = sorted(pairs, key=lambda pair: (pair[0].parent.as_posix(), pair[0].name))
        self._image_files, self._labels = map(list, zip(*ordered, strict=True))


def _wrong_ending(image: Image.Image, number: int) -> bytes:
    """Encode an image as the real ones with a wrong ending are."""
    kinds = [(image.convert("L"), "PNG"), (image.convert("RGBA"), "PNG"), (image, "GIF"), (image, "BMP")]
    picked, kind = kinds[number]
    return encoded(picked, kind)


@fake("sun397", Case("SUN397Record", mutations=FILES, theirs=SortedSUN397))
def sun397(rng: Generator) -> Files:
    """A folder for each letter, scenes one or two deep in it; PNG, GIF and BMP files named .jpg."""
    scenes = ("a/abbey", "a/apartment_building/outdoor", "b/bakery/shop", "b/bakery-hall", "c/church/outdoor", "z/zoo")
    files: Files = {"SUN397/README.txt": b"not read", "SUN397/a/abbey/map.jpg": b"not of the dataset"}
    for number, scene in enumerate(reversed(scenes)):
        for place, letters in enumerate(rng.permuted(np.tile(list("abcdefghi"), (scaled(3), 1)), axis=1)):
            image = picture(rng, 26, 20)
            data = _wrong_ending(image, number) if place == 1 and number < 4 else jpeg(image)
            files[f"SUN397/{scene}/sun_{''.join(letters)}.jpg"] = data
    files["SUN397/ClassName.txt"] = text(f"/{scene}" for scene in scenes)
    return {"SUN397.tar.gz": tar(files)}
