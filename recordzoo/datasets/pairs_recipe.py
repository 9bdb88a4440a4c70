"""How datasets of images with files for their targets become records: Cityscapes, KITTI, Oxford-IIIT Pet, VOC, ..."""

import dataclasses
import io
import logging
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path, PurePosixPath

import numpy as np
from typing_extensions import override

from recordzoo.errors import SourceError
from recordzoo.raw.member import Member
from recordzoo.recipes.declared import DeclaredRecipe, Files, ListedRecipe, Lists, files_under, name_key
from recordzoo.recipes.recipe import INCOMPLETE, Blob, Sidecar, Stored, Table, present
from recordzoo.records.arrays import leads_out
from recordzoo.records.manifest import BlobSpec, FieldKind, FieldSpec

_ADE20K_FOLDER = "ADEChallengeData2016"
_ADE20K_FOLDERS = {"train": "training", "val": "validation"}

_CLASSES = f"{_ADE20K_FOLDER}/objectInfo150.txt"


class ADE20K(ListedRecipe):
    """All photographs, sorted by name. A tree may lack the list of classes."""

    needs_lists = False
    lists = (_CLASSES,)
    files = {"image": (f"{_ADE20K_FOLDER}/images/", (".jpg",)), "mask": (f"{_ADE20K_FOLDER}/annotations/", (".png",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        names = sorted(keys["image"])
        rows = lists.rows(_CLASSES, "\t", columns=5)[1:] if _CLASSES in lists else []
        return Table(
            names=names,
            splits={
                split: [name for name in names if name.startswith(f"{folder}/")]
                for split, folder in _ADE20K_FOLDERS.items()
            },
            fields={"mask": FieldSpec(FieldKind.MASKS)},
            default_target="mask",
            metadata={"classes": [row[4].strip() for row in rows]},
        )


_DIV2K_FOLDER = {"train": "train", "val": "valid"}


TRACKS: Mapping[str, tuple[str, str]] = {
    **{
        f"{kind}_x{scale}": (f"DIV2K_{{}}_LR_{kind}/X{scale}/", f"x{scale}.png")
        for kind in ("bicubic", "unknown")
        for scale in (2, 3, 4)
    },
    "bicubic_x8": ("DIV2K_{}_LR_x8/", "x8.png"),
    "mild_x4": ("DIV2K_{}_LR_mild/", "x4m.png"),
    "difficult_x4": ("DIV2K_{}_LR_difficult/", "x4d.png"),
}
"""Folders of images of low resolution, with "{}" for "train" or "valid"; the part of their names after the number."""


def part_of(split: str, track: str) -> str:
    """Return the part of the catalogue that has a split of a track."""
    return f"{split}-{track.replace('_', '-')}"


class DIV2K(ListedRecipe):
    """The images of low resolution of one split and track, sorted; those of high resolution have their numbers."""

    @property
    def _place(self) -> tuple[str, str]:
        split, _, track = self.part.partition("-")
        return split, track.replace("-", "_")

    @property
    @override
    def files(self) -> Mapping[str, Files]:
        split, track = self._place
        kind, (low, ending) = _DIV2K_FOLDER[split], TRACKS[track]
        return {"image": (low.format(kind), (ending,)), "high": (f"DIV2K_{kind}_HR/", (".png",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        names = sorted(keys["image"])
        return Table(names, splits={self._place[0]: names}, default_target="high")


KITTI_FOLDERS = {"train": "training", "test": "testing"}


class Kitti(ListedRecipe):
    """The images of a part, sorted by name."""

    @property
    @override
    def files(self) -> Mapping[str, Files]:
        folder = KITTI_FOLDERS[self.part]
        images: dict[str, Files] = {"image": (f"{folder}/image_2/", (".png",))}
        return images if self.part == "test" else {**images, "label": (f"{folder}/label_2/", (".txt",))}

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        has_all = all((base / folder).is_dir() for folder, _ in self.files.values())
        return super().tree_names(base) if has_all else None

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        names = sorted(keys["image"])
        return Table(names=names, splits={self.part: names})


def split_name(name: str) -> str:
    """Name the split of a folder or a list: names of splits have no "_"."""
    return name.replace("_", "-")


_SBD = "benchmark_RELEASE/dataset/"
"""The archive's folder; torchvision moves its contents to the root."""


class SBD(ListedRecipe):
    """All images, existing or only listed, by name; the part "train-noval" also needs its list."""

    files = {"image": ("img/", (".jpg",)), "mask": ("cls/", (".mat",))}

    @property
    @override
    def lists(self) -> Sequence[str]:
        return ["train.txt", "val.txt", *(["train_noval.txt"] if self.part == "train-noval" else [])]

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        names = super().tree_names(base)
        return names if self.part == "all" or "train_noval.txt" in (names or ()) else None

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        return super().extract(dataclasses.replace(member, name=member.name.removeprefix(_SBD)))

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        splits = {
            split_name(name.removesuffix(".txt")): [f"{line}.jpg" for line in lists.lines(name)]
            for name in self.lists
            if name in lists
        }
        names = sorted({*keys["image"], *(name for split in splits.values() for name in split)})
        return Table(names=names, keys={"image": present(names, keys["image"])}, splits=splits, default_target="mask")


CITYSCAPES_IMAGES = "leftImg8bit"
CITYSCAPES_ENDING = "_leftImg8bit.png"

CITYSCAPES_SUFFIXES = {
    "instance": "instanceIds.png",
    "semantic": "labelIds.png",
    "color": "color.png",
    "polygon": "polygons.json",
}
"""The suffix of the files of each target type; target types are blob fields."""

_CITYSCAPES_SPLITS = {"fine": ("train", "val", "test"), "coarse": ("train", "val"), "extra": ("train_extra",)}
"""The folders of each part's splits."""


class Cityscapes(DeclaredRecipe):
    """The images of a part's splits, sorted by name, with their existing targets."""

    fields = {
        "image": BlobSpec("image"),
        **{kind: BlobSpec("bytes" if kind == "polygon" else "image") for kind in CITYSCAPES_SUFFIXES},
    }

    @property
    def targets(self) -> str:
        """The folder of the targets."""
        return "gtFine" if self.part == "fine" else "gtCoarse"

    @property
    def _files(self) -> Mapping[str, tuple[str, str]]:
        """For each field, the folder and the suffix of its files."""
        ends = {kind: (self.targets, f"_{self.targets}_{suffix}") for kind, suffix in CITYSCAPES_SUFFIXES.items()}
        return {"image": (CITYSCAPES_IMAGES, CITYSCAPES_ENDING), **ends}

    @property
    @override
    def tree_marks(self) -> Sequence[str]:
        splits = _CITYSCAPES_SPLITS[self.part]
        return [f"{folder}/{split}/" for folder in (CITYSCAPES_IMAGES, self.targets) for split in splits]

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        tops = (CITYSCAPES_IMAGES, self.targets)
        splits = [
            split for split in _CITYSCAPES_SPLITS[self.part] if all((base / top / split).is_dir() for top in tops)
        ]
        if not splits:
            return None
        files = self._files.values()
        found = [files_under(base, f"{top}/{split}", (end.lower(),)) for split in splits for top, end in files]
        return [name for names in found for name in names]

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        top, _, name = member.name.partition("/")
        if name.count("/") != 2 or name.partition("/")[0] not in _CITYSCAPES_SPLITS[self.part]:
            return
        for field, (folder, ending) in self._files.items():
            if folder == top and name.endswith(ending):
                yield Blob(field, name.removesuffix(ending), member.read())

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        stems = sorted(stored.keys["image"], key=name_key)
        if not stems:
            raise self.no_image(f"{CITYSCAPES_IMAGES}/")
        folders = np.array([stem.partition("/")[0] for stem in stems])
        return Table(
            names=[stem + CITYSCAPES_ENDING for stem in stems],
            keys={field: present(stems, stored.keys[field]) for field in self.fields},
            splits={
                split_name(split): np.flatnonzero(folders == split)
                for split in _CITYSCAPES_SPLITS[self.part]
                if split in folders
            },
            fields={kind: FieldSpec(FieldKind.MASKS) for kind in CITYSCAPES_SUFFIXES if kind != "polygon"},
            default_target="instance",
        )


_PETS_SPLITS = ("trainval", "test")


class OxfordPets(ListedRecipe):
    """All photographs, sorted by name. Those in no list have the labels -1."""

    lists = tuple(f"annotations/{split}.txt" for split in _PETS_SPLITS)
    files = {"image": ("images/", (".jpg",)), "mask": ("annotations/trimaps/", (".png",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        list_of = dict(zip(_PETS_SPLITS, self.lists, strict=True))
        rows = {split: lists.rows(name, columns=4) for split, name in list_of.items() if name in lists}
        splits = {split: [f"{row[0]}.jpg" for row in listed] for split, listed in rows.items()}
        names = sorted({*keys["image"], *(name for split in splits.values() for name in split)})
        labels = {f"{row[0]}.jpg": (row.integer(1) - 1, row.integer(2) - 1) for split in rows.values() for row in split}
        pairs = np.array([labels.get(name, (-1, -1)) for name in names], np.int64).reshape(-1, 2)
        return Table(
            names=names,
            arrays={"target": pairs[:, 0], "species": pairs[:, 1]},
            splits=splits,
            fields={
                "target": FieldSpec(FieldKind.CLASS),
                "mask": FieldSpec(FieldKind.MASKS),
                "species": FieldSpec(FieldKind.CLASS, ("Cat", "Dog")),
            },
        )


VOC_FOLDERS = {
    "image": ("JPEGImages", ".jpg"),
    "annotation": ("Annotations", ".xml"),
    "mask": ("SegmentationClass", ".png"),
}
"""The folder of each blob field, and how its files end."""

_VOC_LISTS = ("Main", "Segmentation")
_VOC_SETS = ("train", "val", "trainval", "test")

logger = logging.getLogger("recordzoo")


def voc_folder(part: str) -> str:
    """Return the folder of a year within the archive."""
    year = part.partition("-")[0]
    return f"{'TrainVal/' if year == '2011' else ''}VOCdevkit/VOC{year}"


def voc_split(folder: str, image_set: str) -> str:
    """Name the split that a list ``ImageSets/<folder>/<image_set>.txt`` becomes."""
    return f"{folder.lower()}-{image_set}"


def voc_list(split: str) -> str:
    """Name the list that a split was made from: "ImageSets/Main/train.txt"."""
    kind, _, image_set = split.partition("-")
    return f"ImageSets/{kind.capitalize()}/{image_set}.txt"


class VOC(ListedRecipe):
    """All images of a year, there or only listed, by name; with the annotation and the mask of each that has them."""

    @property
    @override
    def tree_marks(self) -> Sequence[str]:
        return [f"{voc_folder(self.part)}/ImageSets/"]

    @property
    @override
    def files(self) -> Mapping[str, Files]:
        base = voc_folder(self.part)
        return {field: (f"{base}/{folder}/", (ending,)) for field, (folder, ending) in VOC_FOLDERS.items()}

    @property
    @override
    def lists(self) -> Sequence[str]:
        """See `ListedRecipe`; both archives of 2007 unpack into the same folder, each with its own lists."""
        image_sets: Sequence[str] = _VOC_SETS
        if self.part.startswith("2007"):
            image_sets = ("test",) if self.part.endswith("-test") else ("train", "val", "trainval")
        return [f"{voc_folder(self.part)}/ImageSets/{kind}/{name}.txt" for kind in _VOC_LISTS for name in image_sets]

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        lists = [name for name in self.lists if (base / name).is_file()]
        if not lists:
            return None
        wanted = {stem for name in lists for stem in _voc_stems((base / name).read_bytes())}
        takes_all = not self.part.startswith("2007")  # images of the other part lie among ours
        names = [
            name
            for folder, endings in self.files.values()
            for name in files_under(base, folder, endings)
            if takes_all or name.removeprefix(folder).removesuffix(endings[0]) in wanted
        ]
        return [*names, *lists]

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        """See `ListedRecipe`.

        A sample whose image is missing keeps its place in its list, as in torchvision, and is an error when it is read.
        """
        found = {
            voc_split(*PurePosixPath(name).with_suffix("").parts[-2:]): _voc_stems(data) for name, data in lists.items()
        }
        stems = {field: {key.removesuffix(VOC_FOLDERS[field][1]) for key in keys[field]} for field in keys}
        for what, there in (("lists under ImageSets/", found), ("images under JPEGImages/", stems["image"])):
            if not there:
                raise SourceError(f"Pascal VOC {self.part}: there are no {what} in the raw data. {INCOMPLETE}")
        self._check_lists(found, stems)
        every = sorted(stems["image"].union(*found.values()), key=lambda stem: name_key(voc_image(stem)))
        return Table(
            names=[voc_image(stem) for stem in every],
            keys={
                field: [f"{stem}{ending}" if stem in stems[field] else None for stem in every]
                for field, (_, ending) in VOC_FOLDERS.items()
            },
            splits={name: list(map(voc_image, found[name])) for name in sorted(found)},
            fields={"mask": FieldSpec(FieldKind.MASKS)},
            default_target="annotation",
        )

    def _check_lists(self, lists: Mapping[str, Sequence[str]], there: Mapping[str, Set[str]]) -> None:
        """Refuse names that lead out of the folder; warn of listed files that are not there."""
        for name, listed in lists.items():
            outside = next((stem for stem in listed if leads_out(voc_image(stem)) or stem.startswith("/")), None)
            if outside is not None:
                raise SourceError(f"Pascal VOC {self.part}: the list {name} names {outside!r}, outside of JPEGImages/.")
            for field in ("image", "mask" if name.startswith("segmentation") else "annotation"):
                missing = [stem for stem in listed if stem not in there[field]]
                if missing:
                    logger.warning(
                        "Pascal VOC %s: %d of the %d files %s that %s lists are missing, the first is %r. "
                        "These samples fail when they are read.",
                        self.part,
                        len(missing),
                        len(listed),
                        "/*".join(VOC_FOLDERS[field]),
                        voc_list(name),
                        missing[0],
                    )


def _voc_stems(data: bytes) -> list[str]:
    """Return the lines of a list, stripped, as torchvision reads them: an empty line is a name, too."""
    with io.TextIOWrapper(io.BytesIO(data), "utf-8", "surrogateescape") as lines:
        return [line.strip() for line in lines]


def voc_image(stem: str) -> str:
    """Name an image as its record is named: "JPEGImages/2007_000027.jpg"."""
    return f"JPEGImages/{stem}.jpg"
