"""How torchvision's datasets of image files with labels become records: lists of many kinds, and numbered folders."""

import csv
import dataclasses
import io
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from recordzoo.base.text import text_of
from recordzoo.errors import SourceError
from recordzoo.raw.archive import inner_members
from recordzoo.raw.member import Member
from recordzoo.recipes.declared import (
    ClassFolderRecipe,
    Files,
    ListedRecipe,
    Lists,
    class_folder_order,
    class_labels,
    files_under,
    integer,
    is_apple_double,
    labelled_table,
    name_key,
)
from recordzoo.recipes.recipe import NO_TARGET, Blob, Sidecar, Stored, Table, present
from recordzoo.records.manifest import FieldKind, FieldSpec

_SCENES = {split: f"CLEVR_v1.0/scenes/CLEVR_{split}_scenes.json" for split in ("train", "val")}


class CLEVR(ListedRecipe):
    """A label is the number of objects. Images of "test" have no label: the archive lacks their scenes."""

    lists = tuple(_SCENES.values())
    needs_lists = False  # of "test" alone there are none
    files = {"image": ("CLEVR_v1.0/images/", (".png",))}

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        if member.name in self.lists:
            yield Sidecar(member.name, count_objects(member))
        else:
            yield from super().extract(member)

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        names = sorted((key for key in keys["image"] if key.count("/") == 1), key=name_key)
        counts = {split: json.loads(lists[scenes]) for split, scenes in _SCENES.items() if scenes in lists}
        splits: dict[str, list[str]] = {split: [] for split in (*counts, "test")}
        target = np.full(len(names), NO_TARGET, np.int64)
        for position, name in enumerate(names):
            split, _, file = name.partition("/")
            if split in splits:
                splits[split].append(name)
            if split in counts and file not in counts[split]:
                raise SourceError(f"{self.dataset}: {_SCENES[split]} has no scene for {file}.")
            if split in counts:
                target[position] = counts[split][file]
        present = {split: listed for split, listed in splits.items() if listed}
        return Table(names=names, arrays={"target": target}, splits=present)


def count_objects(member: Member) -> bytes:
    """Return the number of objects of each image as JSON, which is far smaller than the file of scenes.

    Raises:
        SourceError: The file does not contain scenes.
    """
    try:
        counts = json.loads(member.read(), object_hook=_shortened)
        if not isinstance(counts, dict):
            raise ValueError("it has no scenes")
    except (ValueError, LookupError, TypeError) as err:
        raise SourceError(f"{member.name} is not a file of CLEVR's scenes: {err}") from err
    return json.dumps(counts).encode()


# Any: what JSON holds. The innermost objects come first.
def _shortened(node: dict[str, Any]) -> Any:
    if "scenes" in node:
        return dict(node["scenes"])
    return (node["image_filename"], len(node["objects"])) if "objects" in node else None


_PARTITIONED = [f"{split}{partition}" for partition in range(1, 11) for split in ("train", "val", "test")]


class DTD(ListedRecipe):
    """Splits are called as the lists: "train1", "val1", "test1", "train2", ..."""

    lists = tuple(f"dtd/labels/{split}.txt" for split in _PARTITIONED)
    files = {"image": ("dtd/images/", (".jpg",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        splits = {name.rpartition("/")[2].removesuffix(".txt"): lists.lines(name) for name in lists}
        names = sorted({*keys["image"], *(name for listed in splits.values() for name in listed)})
        classes, target = class_labels(names)
        return Table(names=names, arrays={"target": target}, splits=splits, classes=classes)


_AIRCRAFT = "fgvc-aircraft-2013b/data"
_AIRCRAFT_LEVELS = {"variant": "variants", "family": "families", "manufacturer": "manufacturers"}
_AIRCRAFT_SPLITS = ("train", "val", "trainval", "test")


class FGVCAircraft(ListedRecipe):
    """An array of labels for each level; -1 if no list of the level names the image.

    A split has the order of its lists, which is the same on all levels.
    """

    lists = (f"{_AIRCRAFT}/*.txt",)
    files = {"image": (f"{_AIRCRAFT}/images/", (".jpg",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        splits: dict[str, list[str]] = {}
        classes: dict[str, list[str]] = {}
        labels: dict[str, dict[str, int]] = {}
        for level, plural in _AIRCRAFT_LEVELS.items():
            list_of = {split: f"{_AIRCRAFT}/images_{level}_{split}.txt" for split in _AIRCRAFT_SPLITS}
            rows = {split: lists.rows(name, " ", columns=2, cuts=1) for split, name in list_of.items() if name in lists}
            classes[level] = lists.lines(f"{_AIRCRAFT}/{plural}.txt") if rows else []
            label_of = {name: label for label, name in enumerate(classes[level])}
            labels[level] = {}
            for split, listed in rows.items():
                images = [f"{number}.jpg" for number, _ in listed]
                if splits.setdefault(split, images) != images:
                    raise SourceError(
                        f"{self.dataset}: {list_of[split]} has other images than the lists of other levels."
                    )
                for image, (_, name) in zip(images, listed, strict=True):
                    if name not in label_of:
                        raise SourceError(f"{self.dataset}: {list_of[split]}: {name!r} is not in {plural}.txt.")
                    labels[level][image] = label_of[name]
        names = sorted({*keys["image"], *itertools.chain(*splits.values())})
        arrays = {
            level: np.array([labels[level].get(name, NO_TARGET) for name in names], np.int64)
            for level in _AIRCRAFT_LEVELS
        }
        fields = {level: FieldSpec(FieldKind.CLASS, tuple(found) or None) for level, found in classes.items()}
        return Table(names, arrays=arrays, splits=splits, fields=fields, default_target="variant")


_FLOWER_IDS = {"train": "trnid", "val": "valid", "test": "tstid"}


class Flowers102(ListedRecipe):
    """Photograph n is ``image_<n>.jpg``; its label is number n in ``imagelabels.mat``, minus 1."""

    lists = ("imagelabels.mat", "setid.mat")
    files = {"image": ("jpg/", (".jpg",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        labels = np.atleast_1d(lists.mat("imagelabels.mat")["labels"]).astype(np.int64) - 1
        names = [f"image_{number:05d}.jpg" for number in range(1, len(labels) + 1)]
        ids = lists.mat("setid.mat")
        splits = {split: np.atleast_1d(ids[name]).astype(np.int64) - 1 for split, name in _FLOWER_IDS.items()}
        return Table(names=names, arrays={"target": labels}, splits=splits, classes=self.entry.classes)


class Food101(ListedRecipe):
    """Names are ``class/number.jpg``; a split has the order of its file."""

    lists = ("food-101/meta/train.json", "food-101/meta/test.json")
    files = {"image": ("food-101/images/", (".jpg",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        splits = {
            name.rpartition("/")[2].removesuffix(".json"): [
                f"{stem}.jpg" for stems in json.loads(data).values() for stem in stems
            ]
            for name, data in lists.items()
        }
        names = sorted({*keys["image"], *itertools.chain(*splits.values())}, key=name_key)
        classes, target = class_labels(names)
        return Table(names=names, arrays={"target": target}, splits=splits, classes=classes)


_SCENE_NAMES = "SUN397/ClassName.txt"


class SUN397(ListedRecipe):
    """The list has the classes in the order of their labels, as "/a/abbey" or "/a/apartment_building/outdoor"."""

    lists = (_SCENE_NAMES,)
    files = {"image": ("SUN397/", (".jpg",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        classes = [line[3:] for line in lists.lines(_SCENE_NAMES)]
        label_of = {name: label for label, name in enumerate(classes)}
        names = sorted((key for key in keys["image"] if key.rpartition("/")[2].startswith("sun_")), key=name_key)
        scenes = [name.partition("/")[2].rpartition("/")[0] for name in names]
        if unknown := next((name for name, scene in zip(names, scenes, strict=True) if scene not in label_of), ""):
            raise SourceError(
                f"{self.dataset}: {unknown} lies in a folder that {_SCENE_NAMES} does not name as a class."
            )
        target = np.array([label_of[scene] for scene in scenes], np.int64)
        return Table(names=names, arrays={"target": target}, classes=classes)


GTSRB_FOLDERS = {"train": "GTSRB/Training/", "test": "GTSRB/Final_Test/Images/"}
"""The folder that the names of each part's records are relative to."""

_GTSRB_LIST = "GT-final_test.csv"


class GTSRBTraining(ClassFolderRecipe):
    """Photographs in a folder for each class, in tracks of 30 of the same sign."""

    top = GTSRB_FOLDERS["train"]
    endings = (".ppm",)


class GTSRBTest(ListedRecipe):
    """Photographs in one folder, in the order of the list."""

    lists = (_GTSRB_LIST,)
    files = {"image": (GTSRB_FOLDERS["test"], (".ppm",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        where = f"{self.set_name}: {_GTSRB_LIST}"
        lines = text_of(lists[_GTSRB_LIST], where).splitlines()
        reader = csv.DictReader(lines, delimiter=";", skipinitialspace=True)
        listed: list[str] = []
        labels: dict[str, int] = {}
        try:
            for row in reader:
                listed.append(row["Filename"])
                labels[row["Filename"]] = integer(row["ClassId"], where, reader.line_num)
        except (KeyError, TypeError) as err:
            raise SourceError(f"{where} is no list of files and their classes ({err!r}).") from err
        classes = [f"{label:05d}" for label in range(self.entry.num_classes or 0)]  # as the folders for training
        return labelled_table(labels, {"test": listed}, classes)


_PLACES_CATEGORIES = "categories_places365.txt"


class Places365(ListedRecipe):
    """A part for each split and size: "train-standard", "train-standard-small", "val", ...

    Names are relative to the folder of the images. Archives of training images have another folder than torchvision
    gives them: "data_256/", which it renames to "data_256_standard/" or "data_256_challenge/".
    """

    @property
    def split(self) -> str:
        """torchvision's name of the split."""
        return self.part.removesuffix("-small")

    @property
    def list_file(self) -> str:
        """The list of the split's images."""
        return f"places365_{self.split.replace('-', '_')}.txt"

    @property
    @override
    def lists(self) -> Sequence[str]:
        return (_PLACES_CATEGORIES, self.list_file)

    @property
    @override
    def files(self) -> Mapping[str, Files]:
        size = "256" if self.part.endswith("-small") else "large"
        kind, _, variant = self.split.partition("-")
        folder = f"data_{size}_{variant}/" if variant else f"{kind}_{size}/"
        return {"image": (folder, (".jpg",))}

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        folder, _ = self.files["image"]
        packed = folder.removesuffix("_standard/").removesuffix("_challenge/").removesuffix("/") + "/"
        if member.name.startswith(packed):
            member = dataclasses.replace(member, name=folder + member.name.removeprefix(packed))
        yield from super().extract(member)

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        listed, labels = [], []
        data, where = lists[self.list_file], f"{self.dataset}: {self.list_file}"
        text_of(data, where)  # refuses what is not UTF-8
        for number, line in enumerate(io.BytesIO(data), 1):  # of 8 million lines
            if row := line.split():
                listed.append(row[0].decode().lstrip("/"))
                labels.append(integer(row[1], where, number) if len(row) > 1 else NO_TARGET)
        order = class_folder_order(listed)
        positions = np.empty_like(order)
        positions[order] = np.arange(len(order))
        return Table(
            names=[listed[place] for place in order.tolist()],
            arrays={"target": np.array(labels, np.int64)[order]},
            splits={self.split: positions},
            classes=_place_names(lists),
        )


def _place_names(lists: Lists) -> list[str]:
    """Return the names of the classes in the order of their labels."""
    name_of = {row.integer(1): row[0] for row in lists.rows(_PLACES_CATEGORIES, columns=2)}
    if sorted(name_of) != list(range(len(name_of))):
        raise SourceError(
            f"Places365: the labels in {_PLACES_CATEGORIES} do not count from 0. Download the file again."
        )
    return [name_of[label] for label in range(len(name_of))]


CARS_ANNOTATIONS = {"train": "devkit/cars_train_annos.mat", "test": "cars_test_annos_withlabels.mat"}
_CARS_META = "devkit/cars_meta.mat"


class StanfordCars(ListedRecipe):
    """The annotated photographs, sorted by name; the split has the order of the annotations."""

    @property
    @override
    def lists(self) -> Sequence[str]:
        return (CARS_ANNOTATIONS[self.part], _CARS_META)

    @property
    @override
    def files(self) -> Mapping[str, Files]:
        return {"image": (f"cars_{self.part}/", (".jpg",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        rows = np.atleast_1d(lists.mat(CARS_ANNOTATIONS[self.part])["annotations"])
        label_of = {str(row["fname"]): int(row["class"]) - 1 for row in rows}  # classes are counted from 1
        classes = np.atleast_1d(lists.mat(_CARS_META)["class_names"]).tolist()
        return labelled_table(label_of, {self.part: [str(row["fname"]) for row in rows]}, classes)


BACKGROUND = "BACKGROUND_Google"
"""A folder of Caltech 101 that is no class."""

ANNOTATIONS = {
    "Faces": "Faces_2",
    "Faces_easy": "Faces_3",
    "Motorbikes": "Motorbikes_16",
    "airplanes": "Airplanes_Side_2",
}
"""The folders of contours whose names differ from their class."""


class Caltech256(ListedRecipe):
    """The images of a class are numbered by their count in the folder, as in torchvision.

    Attributes:
        image_name: The name of an image within its class folder.
    """

    files = {"image": ("256_ObjectCategories/", (".jpg",))}
    image_name: ClassVar[str] = "{label:03d}_{number:04d}.jpg"

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        counts = Counter(
            name.partition("/")[0] for name in keys["image"] if name.count("/") == 1 and name.endswith(".jpg")
        )
        if not counts:
            raise self.no_image(self.files["image"][0])
        classes = sorted(counts)
        rows = [(place, number) for place, name in enumerate(classes) for number in range(1, counts[name] + 1)]
        target, numbers = np.array(rows, np.int64).T
        return Table(
            names=[image_name(self.image_name, classes, *row) for row in rows],
            arrays={"target": target, "number": numbers},
            classes=classes,
        )


class Caltech101(Caltech256):
    """Each image has a contour. The archive is a zip of a tar.gz (images) and a tar (contours)."""

    files = {"image": ("101_ObjectCategories/", (".jpg",)), "annotation": ("Annotations/", (".mat",))}
    image_name = "image_{number:04d}.jpg"

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        if is_apple_double(member.name):
            return
        if member.name.endswith((".tar", ".tar.gz")):
            for inner in inner_members(member):
                yield from self.extract(inner)
        elif f"/{BACKGROUND}/" not in member.name:
            yield from super().extract(member)

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        table = super().table(keys, lists)
        numbers = table.arrays["number"].tolist()
        names = [annotation_name(image.partition("/")[0], n) for image, n in zip(table.names, numbers, strict=True)]
        return dataclasses.replace(table, keys={"annotation": present(names, keys["annotation"])})


def image_name(pattern: str, classes: Sequence[str], place: int, number: int) -> str:
    """Name an image by its label (from 0) and its number (from 1): "001.ak47/001_0001.jpg"."""
    return f"{classes[place]}/{pattern.format(label=place + 1, number=number)}"


def annotation_name(category: str, number: int) -> str:
    """Name the file of a contour: "Faces_2/annotation_0001.mat"."""
    return f"{ANNOTATIONS.get(category, category)}/annotation_{number:04d}.mat"


LEVELS = ("kingdom", "phylum", "class", "order", "family", "genus")
"""The taxonomic levels of a category of 2021, which its name has between number and epithet."""

# The folder in the archive. torchvision calls it like the version when it has extracted it.
_FOLDERS = {
    "2017": "train_val_images",
    "2018": "train_val2018",
    "2019": "train_val2019",
    "2021_train": "train",
    "2021_train_mini": "train_mini",
    "2021_valid": "val",
}

Taxonomy = tuple[dict[str, dict[str, int]], list[dict[str, int]]]
"""torchvision's `categories_index` and `categories_map`: numbers by level and name, and those of each category."""


class INaturalist(ClassFolderRecipe):
    """All images in ImageFolder's order. The one split has them by category, as torchvision numbers categories."""

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        """See `DeclaredRecipe`: also of a tree that was unpacked by hand, whose folder may be called "train"."""
        if (names := super().tree_names(base)) is not None:
            return names
        folder = _FOLDERS[self.part]
        is_there = (base / folder).is_dir() and (not _is_2021(self.part) or any((base / folder).glob("00000_*_*")))
        return files_under(base, folder, self.endings) if is_there else None

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        folder, _, name = member.name.partition("/")
        if folder in (self.part, _FOLDERS[self.part]) and name.count("/") == (1 if _is_2021(self.part) else 2):
            yield Blob("image", name, member.read())

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        names = sorted(stored.keys["image"], key=name_key)
        if not names:
            raise self.no_image(self.top)
        folders = [name.rpartition("/")[0] for name in names]
        categories = _by_label(self.part, list(dict.fromkeys(folders)))
        label_of = {category: label for label, category in enumerate(categories)}
        target = np.fromiter((label_of[folder] for folder in folders), np.int64, len(folders))
        index, numbers = taxonomy(self.part, categories)
        levels = {level: np.array([each[level] for each in numbers], np.uint16)[target] for level in index}
        split = next(iter(split.name for split in self.entry.splits if split.part == self.part))
        return Table(
            names=names,
            arrays={"target": target, **levels},
            splits={split: np.argsort(target, kind="stable")},
            classes=categories,
            fields={level: FieldSpec(FieldKind.CLASS, tuple(found)) for level, found in index.items()},
        )


def taxonomy(version: str, categories: Sequence[str]) -> Taxonomy:
    """Number the taxa of all levels as torchvision does: of 2021 by first appearance, before in sorted order."""
    if not _is_2021(version):
        names = sorted({category.partition("/")[0] for category in categories})
        index = {"super": {name: number for number, name in enumerate(names)}}
        return index, [{"super": index["super"][category.partition("/")[0]]} for category in categories]
    index = {level: {} for level in LEVELS}
    numbers = []
    for category in categories:
        pairs = zip(LEVELS, category.split("_")[1:7], strict=True)
        numbers.append({level: index[level].setdefault(name, len(index[level])) for level, name in pairs})
    return index, numbers


def _is_2021(version: str) -> bool:
    return version.startswith("2021")


def _by_label(version: str, folders: Sequence[str]) -> list[str]:
    """Put the folders of categories into the order of their labels, with which their names begin (2021) or end."""
    if version == "2017":
        return list(folders)
    is_2021 = _is_2021(version)
    numbers = [folder.partition("_")[0] if is_2021 else folder.rpartition("/")[2] for folder in folders]
    found = sorted((int(number), folder) for number, folder in zip(numbers, folders, strict=True) if number.isdecimal())
    wrong = next((folder for label, (number, folder) in enumerate(found) if number != label), None)
    odd = next((folder for folder in folders if is_2021 and folder.count("_") != len(LEVELS) + 1), wrong)
    if odd is not None or len(found) < len(folders):
        raise SourceError(
            f"iNaturalist {version}: the folders of its {len(folders):,} categories are not numbered from 0 on, one "
            f"each, or are named otherwise{f': {odd}' if odd else ''}. Unpack the archive again."
        )
    return [folder for _, folder in found]


class Omniglot(ClassFolderRecipe):
    """Drawn characters; a class is a character of an alphabet."""

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        # torchvision reads only the folders of characters, and only this spelling of the suffix.
        if member.name.removeprefix(self.top).count("/") == 2 and member.name.endswith(self.endings):
            yield from super().extract(member)

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        table = super().build_table(stored, sidecars)
        folders = [name.rpartition("/")[0] for name in table.names]
        classes = sorted(set(folders), key=lambda folder: folder.split("/"))
        label_of = {folder: label for label, folder in enumerate(classes)}
        target = np.array([label_of[folder] for folder in folders], np.int64)
        return Table(table.names, arrays={"target": target}, classes=classes)
