"""How a year of Pascal VOC becomes records: `voc2012.records` and so on, images, annotations and masks in one set.

Detection and segmentation are two classes over one record set; their lists are its splits.
"""

import io
import logging
from collections.abc import Mapping, Sequence, Set
from pathlib import Path, PurePosixPath

from typing_extensions import override

from recordzoo.errors import SourceError
from recordzoo.recipes.declared import Files, ListedRecipe, Lists, files_under, name_key
from recordzoo.recipes.recipe import INCOMPLETE, Table
from recordzoo.records.arrays import leads_out
from recordzoo.records.manifest import FieldKind, FieldSpec

FOLDER_OF = {
    "image": ("JPEGImages", ".jpg"),
    "annotation": ("Annotations", ".xml"),
    "mask": ("SegmentationClass", ".png"),
}
"""The folder of each blob field, and how its files end."""

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


def _split_of(list_file: str) -> str:
    kind, image_set = PurePosixPath(list_file).parts[-2:]
    return split_name(kind, image_set.removesuffix(".txt"))


def list_name(split: str) -> str:
    """Name the list that a split was made from: "ImageSets/Main/train.txt"."""
    kind, _, image_set = split.partition("-")
    return f"ImageSets/{kind.capitalize()}/{image_set}.txt"


class VOC(ListedRecipe):
    """All images of a year, there or only listed, by name; with the annotation and the mask of each that has them."""

    @property
    @override
    def tree_marks(self) -> Sequence[str]:
        return [f"{base_folder(self.part)}/ImageSets/"]

    @property
    @override
    def files(self) -> Mapping[str, Files]:
        base = base_folder(self.part)
        return {field: (f"{base}/{folder}/", (ending,)) for field, (folder, ending) in FOLDER_OF.items()}

    @property
    @override
    def lists(self) -> Sequence[str]:
        """See `ListedRecipe`; both archives of 2007 unpack into the same folder, each with its own lists."""
        image_sets: Sequence[str] = IMAGE_SETS
        if self.part.startswith("2007"):
            image_sets = ("test",) if self.part.endswith("-test") else ("train", "val", "trainval")
        return [f"{base_folder(self.part)}/ImageSets/{kind}/{name}.txt" for kind in LISTS for name in image_sets]

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        lists = [name for name in self.lists if (base / name).is_file()]
        if not lists:
            return None
        wanted = {stem for name in lists for stem in _stems((base / name).read_bytes())}
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
        found = {_split_of(name): _stems(data) for name, data in lists.contents.items()}
        stems = {field: {key.removesuffix(FOLDER_OF[field][1]) for key in keys[field]} for field in keys}
        for what, there in (("lists under ImageSets/", found), ("images under JPEGImages/", stems["image"])):
            if not there:
                raise SourceError(f"Pascal VOC {self.part}: there are no {what} in the raw data. {INCOMPLETE}")
        self._check_lists(found, stems)
        every = sorted(stems["image"].union(*found.values()), key=lambda stem: name_key(image_name(stem)))
        return Table(
            names=[image_name(stem) for stem in every],
            keys={
                field: [f"{stem}{ending}" if stem in stems[field] else None for stem in every]
                for field, (_, ending) in FOLDER_OF.items()
            },
            splits={name: list(map(image_name, found[name])) for name in sorted(found)},
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
