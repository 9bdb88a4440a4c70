"""How a year of Pascal VOC becomes records: `voc2012.records` and so on, images, annotations and masks in one set.

Detection and segmentation are two classes over one record set; their lists are its splits.
"""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recordzoo import catalogue
from recordzoo.errors import ArgumentError, SourceError
from recordzoo.recipes.base import ABSENT, Arrangement, Blob, BlobField, Recipe, Side, Stored
from recordzoo.recipes.raw_files import files_of_part
from recordzoo.sources.archive import ArchiveSource
from recordzoo.sources.download import RemoteFile
from recordzoo.sources.member import Member, Source
from recordzoo.sources.tree import TreeSource

FOLDERS = {
    "JPEGImages": ("image", ".jpg"),
    "Annotations": ("annotation", ".xml"),
    "SegmentationClass": ("mask", ".png"),
}
"""Which folder is which blob field, and how its files end."""

FOLDER_OF = {field: (folder, ending) for folder, (field, ending) in FOLDERS.items()}

LISTS = ("Main", "Segmentation")
IMAGE_SETS = ("train", "val", "trainval", "test")


def recipe(part: str = "2012", raw_files: tuple[RemoteFile, ...] | None = None) -> "VOC":
    """Return the recipe of a year, "2007" to "2012" or "2007-test"; `raw_files` are the catalogue's by default."""
    known = [p.name for p in catalogue.entry("voc").parts]
    if part not in known:
        raise ArgumentError(f"Unknown value {part!r} for argument part. Valid values are {', '.join(known)}.")
    return VOC(part, files_of_part("voc", part, raw_files))


def base_folder(part: str) -> str:
    """Return the folder of a year within the archive."""
    year = part.partition("-")[0]
    return f"{'TrainVal/' if year == '2011' else ''}VOCdevkit/VOC{year}"


def split_name(folder: str, image_set: str) -> str:
    """Name the split that a list ``ImageSets/<folder>/<image_set>.txt`` becomes."""
    return f"{folder.lower()}-{image_set}"


@dataclass(frozen=True)
class VOC(Recipe):
    """All images of a year, sorted by name, with the annotation and the mask of each that has them."""

    part: str
    raw_files: tuple[RemoteFile, ...]

    dataset = "voc"
    expansion = 1.08  # each of 17,125 annotations of under 4 KB takes a page of its own
    fields = {  # noqa: RUF012 - declared by Recipe, never changed
        "image": BlobField("image"),
        "annotation": BlobField("bytes"),
        "mask": BlobField("image"),
    }

    @property
    def set_name(self) -> str:
        """See `Recipe`: "voc2012"."""
        return catalogue.entry("voc").set_name(self.part)

    def find(self, root: Path) -> Source | None:
        """See `Recipe`."""
        base = base_folder(self.part)
        # 2007's test archive unpacks into the same folder as its training archive: the lists tell which is there.
        needed = "test" if self.part.endswith("-test") else "trainval"
        if (root / base / "ImageSets" / "Main" / f"{needed}.txt").is_file():
            return TreeSource(root, self._tree_names(root))
        path = root / self.raw_files[0].name
        return ArchiveSource(path) if path.is_file() else None

    def _tree_names(self, root: Path) -> list[str]:
        base = base_folder(self.part)
        files = [file for folder in FOLDERS for file in _files(root / base / folder)]
        image_sets: Sequence[str] = IMAGE_SETS
        if self.part.startswith("2007"):
            # Both archives of 2007 unpack into this folder; each has exactly the images of its list.
            whole = "test" if self.part.endswith("-test") else "trainval"
            wanted = set((root / base / "ImageSets" / "Main" / f"{whole}.txt").read_text().split())
            files = [file for file in files if file.stem in wanted]
            image_sets = ("test",) if whole == "test" else ("train", "val", "trainval")
        lists = [
            root / base / "ImageSets" / folder / f"{image_set}.txt" for folder in LISTS for image_set in image_sets
        ]
        return [file.relative_to(root).as_posix() for file in (*files, *filter(Path.is_file, lists))]

    def looked_for(self, root: Path) -> list[str]:
        """See `Recipe`."""
        return [f"{base_folder(self.part)}/", self.raw_files[0].name]

    def extract(self, member: Member) -> Iterator[Blob | Side]:
        """See `Recipe`."""
        base = f"{base_folder(self.part)}/"
        if not member.name.startswith(base):
            return
        folder, _, file = member.name.removeprefix(base).rpartition("/")
        stem, ending = posixpath.splitext(file)
        if folder in FOLDERS and FOLDERS[folder][1] == ending:
            yield Blob(FOLDERS[folder][0], stem, member.read())
        elif folder.removeprefix("ImageSets/") in LISTS and stem in IMAGE_SETS and ending == ".txt":
            yield Side(split_name(folder.removeprefix("ImageSets/"), stem), member.read())

    def arrange(self, stored: Stored, sides: Mapping[str, bytes]) -> Arrangement:
        """See `Recipe`."""
        slots = {field: {key: slot for slot, key in enumerate(stored.keys.get(field, ()))} for field in self.fields}
        stems = sorted(slots["image"])
        position_of = {stem: position for position, stem in enumerate(stems)}
        splits = {name: _positions(name, data, position_of, stored.skipped) for name, data in sorted(sides.items())}
        if not splits:
            raise SourceError(f"Pascal VOC {self.part}: there are no lists under ImageSets/ in the raw data.")
        return Arrangement(
            names=[f"JPEGImages/{stem}.jpg" for stem in stems],
            blobs={
                field: np.array([slot_of.get(stem, ABSENT) for stem in stems], np.int64)
                for field, slot_of in slots.items()
            },
            splits=splits,
        )


def _positions(name: str, data: bytes, position_of: Mapping[str, int], skipped: frozenset[str]) -> NDArray[np.int64]:
    stems: Sequence[str] = [stem for stem in data.decode().split() if stem not in skipped or stem in position_of]
    absent = [stem for stem in stems if stem not in position_of]
    if absent:
        raise SourceError(f"Pascal VOC: {len(absent)} images of the list {name} are missing, the first is {absent[0]}.")
    return np.array([position_of[stem] for stem in stems], np.int64)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []
