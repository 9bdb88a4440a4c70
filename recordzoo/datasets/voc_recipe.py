"""How a year of Pascal VOC becomes records: `voc2012.records` and so on, images, annotations and masks in one set.

Detection and segmentation are two classes over one record set; their lists are its splits.
"""

import io
import logging
import posixpath
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path

from typing_extensions import override

from recordzoo.errors import SourceError
from recordzoo.raw.member import Member
from recordzoo.recipes.declared import DeclaredRecipe, matching, name_key
from recordzoo.recipes.recipe import INCOMPLETE, Blob, BlobField, Sidecar, Stored, Table, present
from recordzoo.records.arrays import leads_out
from recordzoo.records.kinds import FieldKind, FieldSpec

FOLDERS = {
    "JPEGImages": ("image", ".jpg"),
    "Annotations": ("annotation", ".xml"),
    "SegmentationClass": ("mask", ".png"),
}
"""Which folder is which blob field, and how its files end."""

FOLDER_OF = {field: (folder, ending) for folder, (field, ending) in FOLDERS.items()}

LISTS = ("Main", "Segmentation")
IMAGE_SETS = ("train", "val", "trainval", "test")

logger = logging.getLogger("recordzoo")


def base_folder(part: str) -> str:
    """Return the folder of a year within the archive."""
    year = part.partition("-")[0]
    return f"{'TrainVal/' if year == '2011' else ''}VOCdevkit/VOC{year}"


def split_name(folder: str, image_set: str) -> str:
    """Name the split that a list ``ImageSets/<folder>/<image_set>.txt`` becomes."""
    return f"{folder.lower()}-{image_set}"


def list_name(split: str) -> str:
    """Name the list that a split was made from: "ImageSets/Main/train.txt"."""
    kind, _, image_set = split.partition("-")
    return f"ImageSets/{kind.capitalize()}/{image_set}.txt"


class VOC(DeclaredRecipe):
    """All images of a year, there or only listed, by name; with the annotation and the mask of each that has them."""

    fields = {"image": BlobField("image"), "annotation": BlobField("bytes"), "mask": BlobField("image")}

    @property
    @override
    def tree_marks(self) -> Sequence[str]:
        return [f"{base_folder(self.part)}/ImageSets/"]

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        lists = self._list_files(base)
        return self._tree_names(base, lists) if lists else None

    def _list_files(self, root: Path) -> list[Path]:
        """Find the lists of this part; both archives of 2007 unpack into the same folder, each with its own lists."""
        image_sets: Sequence[str] = IMAGE_SETS
        if self.part.startswith("2007"):
            image_sets = ("test",) if self.part.endswith("-test") else ("train", "val", "trainval")
        folder = root / base_folder(self.part) / "ImageSets"
        paths = [folder / kind / f"{image_set}.txt" for kind in LISTS for image_set in image_sets]
        return list(filter(Path.is_file, paths))

    def _tree_names(self, root: Path, lists: Sequence[Path]) -> list[str]:
        wanted = None
        if self.part.startswith("2007"):  # images of the other part lie among ours
            wanted = {stem for path in lists for stem in _stems(path.read_bytes())}
        names = []
        for folder, (_, ending) in FOLDERS.items():
            start = f"{base_folder(self.part)}/{folder}/"
            for name in matching(root, f"{start}**/*{ending}"):
                if wanted is None or name.removeprefix(start).removesuffix(ending) in wanted:
                    names.append(name)
        return [*names, *(path.relative_to(root).as_posix() for path in lists)]

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        base = f"{base_folder(self.part)}/"
        if not member.name.startswith(base):
            return
        path, ending = posixpath.splitext(member.name.removeprefix(base))
        folder, _, stem = path.partition("/")
        if folder in FOLDERS and FOLDERS[folder][1] == ending:
            yield Blob(FOLDERS[folder][0], stem, member.read())
        kind, _, image_set = stem.partition("/")
        if folder == "ImageSets" and kind in LISTS and image_set in IMAGE_SETS and ending == ".txt":
            yield Sidecar(split_name(kind, image_set), member.read())

    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        """See `Recipe`.

        A sample whose image is missing keeps its place in its list, as in torchvision, and is an error when it is read.
        """
        there = {field: set(stored.keys[field]) for field in self.fields}
        lists = {name: _stems(data) for name, data in sorted(sidecars.items())}
        if not lists:
            raise SourceError(
                f"Pascal VOC {self.part}: there are no lists under ImageSets/ in the raw data. {INCOMPLETE}"
            )
        if not there["image"]:
            raise SourceError(
                f"Pascal VOC {self.part}: there are no images under JPEGImages/ in the raw data. {INCOMPLETE}"
            )
        self._check_lists(lists, there)
        stems = sorted(there["image"].union(*lists.values()), key=lambda stem: name_key(image_name(stem)))
        return Table(
            names=[image_name(stem) for stem in stems],
            keys={field: present(stems, keys) for field, keys in there.items()},
            splits={name: [image_name(stem) for stem in listed] for name, listed in lists.items()},
            fields={"mask": FieldSpec(FieldKind.MASKS)},
            default_target="annotation",
        )

    def _check_lists(self, lists: Mapping[str, Sequence[str]], there: Mapping[str, Set[str]]) -> None:
        """Refuse names that lead out of the folder; warn of listed files that are not there."""
        for name, listed in lists.items():
            outside = next((stem for stem in listed if leads_out(image_name(stem)) or stem.startswith("/")), None)
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
                        "/*".join(FOLDER_OF[field]),
                        list_name(name),
                        missing[0],
                    )


def _stems(data: bytes) -> list[str]:
    """Return the lines of a list, stripped, as torchvision reads them: an empty line is a name, too."""
    with io.TextIOWrapper(io.BytesIO(data), "utf-8", "surrogateescape") as lines:
        return [line.strip() for line in lines]


def image_name(stem: str) -> str:
    """Name an image as its record is named: "JPEGImages/2007_000027.jpg"."""
    return f"JPEGImages/{stem}.jpg"
