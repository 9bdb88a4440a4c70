"""How CLEVR, DTD, FGVC-Aircraft, Flowers-102, Food-101 and SUN397 become records: images, and lists of many kinds."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from recordzoo.errors import SourceError
from recordzoo.raw.member import Member
from recordzoo.recipes.declared import ListedRecipe, Lists, class_labels, name_key
from recordzoo.recipes.recipe import NO_TARGET, Blob, Sidecar, Table
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
        splits = {name.rpartition("/")[2].removesuffix(".txt"): lists.lines(name) for name in lists.contents}
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
            for name, data in lists.contents.items()
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
