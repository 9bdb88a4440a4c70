"""How CUB-200-2011 becomes records, its photographs and masks; and the CUB-200 of 2010.

Every annotation file of 2011 is optional: one that is absent leaves its array out, and with it the target that needs
it. One that is there must be whole, because a silent zero would be a wrong label.
"""

import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from typing_extensions import override

from recordzoo.base.text import JSON, counted, name_first
from recordzoo.errors import SourceError
from recordzoo.net.url import RemoteFile
from recordzoo.raw.member import Member
from recordzoo.recipes.declared import (
    IMAGE_ENDINGS,
    ListedRecipe,
    Lists,
    class_labels,
    is_apple_double,
    is_class_image,
    name_key,
)
from recordzoo.recipes.recipe import INCOMPLETE, Blob, Sidecar, Stored, Table
from recordzoo.records.manifest import FieldKind, FieldSpec

FOLDER = "CUB_200_2011"
IMAGES = f"{FOLDER}/images/"
MASKS = "segmentations/"
IMAGE_LIST = f"{FOLDER}/images.txt"
SPLIT = f"{FOLDER}/train_test_split.txt"
BOXES = f"{FOLDER}/bounding_boxes.txt"
PART_NAMES = f"{FOLDER}/parts/parts.txt"
PARTS = f"{FOLDER}/parts/part_locs.txt"
ATTRIBUTES = f"{FOLDER}/attributes/image_attribute_labels.txt"
# At the archive's top level, although its README says otherwise; some people moved it to where the README has it.
ATTRIBUTE_NAMES = ("attributes.txt", f"{FOLDER}/attributes/attributes.txt")

# Of two files of one key, the first in `ATTRIBUTE_NAMES` counts: it is read last.
_NAMES = {PART_NAMES: "part_names", **dict.fromkeys(reversed(ATTRIBUTE_NAMES), "attribute_names")}


class _Numbers(NamedTuple):
    """How an array is read from its file.

    Attributes:
        num_columns: How many columns are read.
        read_as: Their type.
        dtype: The array's type.
        counts: The names that the second column counts from 1; "" if that column belongs to the numbers.
    """

    file: str
    num_columns: int
    read_as: DTypeLike
    dtype: DTypeLike
    counts: str = ""


_NUMBERS: Mapping[str, _Numbers] = {
    "split": _Numbers(SPLIT, 2, np.int64, np.int64),
    "bbox": _Numbers(BOXES, 5, np.float64, np.float32),
    "parts": _Numbers(PARTS, 5, np.float64, np.float32, "part_names"),
    # int32, and only the first three columns: 3.7 million lines, a few of which have more columns than they should.
    "attributes": _Numbers(ATTRIBUTES, 3, np.int32, np.uint8, "attribute_names"),
}

NEEDS = {"image_id": IMAGE_LIST, **{name: f"{each.file} or {IMAGE_LIST}" for name, each in _NUMBERS.items()}}
"""The files of each array and of the splits: the list of images has the ids."""

_NUM_SHOWN = 3
_MAX_COLUMNS = 4096  # a forged part or attribute number must not become an allocation; the real ones are 15 and 312


class CUB200(ListedRecipe):
    """The images with their boxes, parts and attributes, in ImageFolder's order over ``CUB_200_2011/images``."""

    lists = (IMAGE_LIST, SPLIT, BOXES, PART_NAMES, PARTS, ATTRIBUTES, *ATTRIBUTE_NAMES)
    files = {"image": (IMAGES, IMAGE_ENDINGS)}
    needs_lists = False

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        name = member.name.removeprefix(IMAGES)
        if name == member.name:
            yield from super().extract(member)
        elif is_class_image(name):  # all, as in ImageFolder: no list names them
            yield Blob("image", name, member.read())

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        if not keys["image"]:
            raise self.no_image(IMAGES)
        is_listed = IMAGE_LIST in lists
        names = sorted((name for name in keys["image"] if not (is_listed and is_apple_double(name))), key=name_key)
        classes, target = class_labels(names)
        texts = {key: _numbered_lines(lists, file) for file, key in _NAMES.items() if file in lists}
        arrays: dict[str, NDArray[Any]] = {"target": target}
        splits: dict[str, NDArray[np.int64]] = {}
        incomplete: Mapping[str, JSON] = {}
        if is_listed:
            arrays["image_id"] = ids = _image_ids(names, lists)
            for name, numbers in _NUMBERS.items():
                if numbers.file in lists:
                    arrays[name] = _read_numbers(lists[numbers.file], numbers, ids, texts.get(numbers.counts, ()))
            if (is_train := arrays.pop("split", None)) is not None:
                splits = {"train": np.flatnonzero(is_train == 1), "test": np.flatnonzero(is_train != 1)}
        else:  # the images are all that are there, not those of the list
            self.check_classes(classes)
            incomplete = self.incomplete(len(names))
        kinds = {
            "bbox": FieldSpec(FieldKind.BOXES),
            "attributes": FieldSpec(FieldKind.MULTILABEL, tuple(texts.get("attribute_names", ())) or None),
        }
        fields = {name: spec for name, spec in kinds.items() if name in arrays}
        return Table(
            names, arrays=arrays, splits=splits, classes=classes, fields=fields, metadata={**texts, **incomplete}
        )


class CUB200Segmentations(ListedRecipe):
    """The masks, at the positions of the images; an image without a mask has none here either.

    Attributes:
        images: The names of the images' record set, whose positions the masks follow. None: there must be a mask for
            every image, and the positions are the same then.
    """

    files = {"mask": (MASKS, (".png",))}
    images: tuple[str, ...] | None = None

    @override
    def __init__(self, dataset: str, part: str = "", raw_files: tuple[RemoteFile, ...] | None = None) -> None:
        super().__init__(dataset, part, raw_files)
        self.expansion = 1.5  # masks of 3.3 KB on average take a page or two each

    @property
    @override
    def options(self) -> Mapping[str, JSON]:
        return {} if self.images is None else {"images": names_digest(self.images)}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        raise NotImplementedError  # `build_table` also needs the masks that were skipped

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        keys = stored.keys["mask"]
        names = self.images
        if names is None:
            names = tuple(f"{_stem(key)}.jpg" for key in sorted(keys, key=name_key))
        mask_of = {_stem(key): key for key in keys if key not in stored.skipped.get("mask", ())}
        masks = [mask_of.get(_stem(name)) for name in names]
        if not any(masks):
            raise SourceError(
                f"CUB-200-2011: none of the {len(keys)} masks under {MASKS} belongs to any of the {len(names)} images; "
                f"a mask is named {MASKS}<class>/<image's name>.png."
            )
        return Table(
            names=names,
            keys={"mask": masks},
            fields={"mask": FieldSpec(FieldKind.MASKS)},
            default_target="mask",
            metadata={"images": names_digest(names)},
        )


def names_digest(names: Sequence[str]) -> str:
    """Digest the names of the images' record set, which the masks' record set keeps to tell whose positions it has."""
    text = "\n".join(names).encode("utf-8", "surrogateescape")
    return hashlib.sha256(text).hexdigest()


def _stem(name: str) -> str:
    return name.rpartition(".")[0]


def _numbered_lines(lists: Lists, file: str) -> list[str]:
    numbered = {row.integer(0): row[1] for row in lists.rows(file, columns=2, cuts=1)}
    if sorted(numbered) != list(range(1, len(numbered) + 1)):
        raise SourceError(f"{file}: its lines are not numbered from 1 to {len(numbered)}.")
    return [numbered[number] for number in sorted(numbered)]


def _image_ids(names: Sequence[str], lists: Lists) -> NDArray[np.int64]:
    """Return the id of each name; the list and the names must be the same set."""
    id_of = {row[1]: row.integer(0) for row in lists.rows(IMAGE_LIST, columns=2, cuts=1)}
    if lost := sorted(id_of.keys() - set(names)):
        raise SourceError(
            f"{IMAGE_LIST} lists {len(id_of)} images, but {counted(len(lost), 'is', 'are')} not in the raw data: "
            f"{name_first(lost, _NUM_SHOWN)}. {INCOMPLETE}"
        )
    if unlisted := [name for name in names if name not in id_of]:
        raise SourceError(
            f"{counted(len(unlisted), 'image is', 'images are')} in the raw data but not listed in {IMAGE_LIST}: "
            f"{name_first(unlisted, _NUM_SHOWN)}. Remove them, or remove the list to take all images without their "
            "annotations."
        )
    ids = np.array([id_of[name] for name in names], dtype=np.int64)
    if len(np.unique(ids)) != len(ids):
        raise SourceError(f"{IMAGE_LIST}: two images have one number.")
    return ids


# Any: a number's precision.
def _read_numbers(data: bytes, numbers: _Numbers, ids: NDArray[np.int64], names: Sequence[str]) -> NDArray[Any]:
    """Read rows of an image's id and numbers into the order of `ids`: [N, C, V], without C or V where there is no such.

    Args:
        data: The file's content.
        numbers: How it is read.
        ids: The images.
        names: Those that the second column counts; if they are not known, C is its largest number.
    """
    file, num_columns, read_as, dtype, counts = numbers
    if not data.strip():
        raise SourceError(f"{file} is empty.")
    try:
        # Measured: 0.5 s for the 3.7 million lines (69 MB) of the attributes, memory for three int32 columns.
        rows = np.loadtxt(io.BytesIO(data), dtype=read_as, usecols=range(num_columns), comments=None, ndmin=2)
    except ValueError as err:
        raise SourceError(f"{file} is not a table of {num_columns} or more numbers a line: {err}.") from err
    order, row_ids = np.argsort(ids), rows[:, 0].astype(np.int64)
    positions = order[np.searchsorted(ids[order], row_ids).clip(max=len(ids) - 1)]
    if len(unknown := row_ids[ids[positions] != row_ids]):
        raise SourceError(f"{file}: {IMAGE_LIST} has no image with the number {unknown[0]}.")
    columns = rows[:, 1].astype(np.int64) - 1 if counts else np.zeros(len(rows), np.int64)
    width = len(names) or int(columns.max()) + 1
    if columns.min() < 0 or columns.max() >= width or width > _MAX_COLUMNS:
        raise SourceError(
            f"{file}: the second column goes from {columns.min() + 1} to {columns.max() + 1}; expected 1 to "
            f"{min(width, _MAX_COLUMNS)}."
        )
    cells = positions * width + columns
    is_there = np.zeros(len(ids) * width, bool)
    is_there[cells] = True
    if len(lacking := np.flatnonzero(~is_there)):
        first = ids[lacking[0] // width]
        raise SourceError(
            f"{file} is not complete: it lacks {counted(len(lacking), 'row')}, the first of image {first}."
        )
    first = 2 if counts else 1
    values = rows[:, first:] if first + 1 < num_columns else rows[:, first]
    spread = np.empty((len(ids) * width, *values.shape[1:]), dtype)
    spread[cells] = values
    return spread.reshape(len(ids), width, *values.shape[1:]) if counts else spread


class CUB200Of2010(ListedRecipe):
    """All photographs, sorted by path; the splits have the order of their lists."""

    lists = tuple(f"lists/{split}.txt" for split in ("train", "test"))
    files = {"image": ("images/", (".jpg",)), "annotation": ("annotations-mat/", (".mat",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        there = [name for name in self.lists if name in lists]
        splits = {name.removeprefix("lists/").removesuffix(".txt"): lists.lines(name) for name in there}
        names = sorted({*keys["image"], *(name for listed in splits.values() for name in listed)}, key=name_key)
        classes, target = class_labels(names)
        return Table(names=names, arrays={"target": target}, splits=splits, classes=classes)
