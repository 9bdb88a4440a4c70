"""How CUB-200-2011 becomes records, its photographs and masks; and the CUB-200 of 2010.

Every annotation file of 2011 is optional: one that is absent leaves its array out, and with it the target that needs
it. One that is there must be whole, because a silent zero would be a wrong label.
"""

import dataclasses
import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.base.text import JSON, counted
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

ANNOTATION_FILES = (IMAGE_LIST, SPLIT, BOXES, PART_NAMES, PARTS, ATTRIBUTES, *ATTRIBUTE_NAMES)

_FILE_OF = {"split": SPLIT, "bbox": BOXES, "parts": PARTS, "attributes": ATTRIBUTES}
NEEDS = {"image_id": IMAGE_LIST, **{name: f"{file} or {IMAGE_LIST}" for name, file in _FILE_OF.items()}}
"""The files of each array and of the splits: the list of images has the ids."""

_MAX_COLUMNS = 4096  # a forged part or attribute number must not become an allocation; the real ones are 15 and 312


class CUB200(ListedRecipe):
    """The images with their boxes, parts and attributes, in ImageFolder's order over ``CUB_200_2011/images``."""

    lists = ANNOTATION_FILES
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
        table = parse_annotations(names, lists.contents)
        metadata = dict(table.metadata)
        if not is_listed:  # else the images are those of the list
            self.check_classes(classes)
            metadata |= self.incomplete(len(names))
        return dataclasses.replace(table, arrays={"target": target, **table.arrays}, classes=classes, metadata=metadata)


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


def parse_annotations(names: Sequence[str], sidecars: Mapping[str, bytes]) -> Table:
    """Read the existing annotation files into a table that lacks the labels.

    Args:
        names: Images in canonical order, relative to ``CUB_200_2011/images``.
        sidecars: The files by name.

    Raises:
        SourceError: The list of images is not the images that are there, or a file is broken or not whole.
    """
    metadata = _names(sidecars)
    if IMAGE_LIST not in sidecars:
        return Table(names, metadata=metadata)
    id_of = {name: image_id for image_id, name in _id_and_text(IMAGE_LIST, sidecars[IMAGE_LIST])}
    ids = _image_ids(names, id_of)

    def numbers(file: str, num_columns: int, dtype: type[np.number[Any]]) -> _Numbers:
        return _Numbers(file, sidecars[file], num_columns, dtype)

    arrays: dict[str, NDArray[Any]] = {"image_id": ids}
    splits: dict[str, NDArray[np.int64]] = {}
    if SPLIT in sidecars:
        is_train = numbers(SPLIT, 2, np.int64).spread(ids)[:, 0, 0]
        splits = {"train": np.flatnonzero(is_train == 1), "test": np.flatnonzero(is_train != 1)}
    if BOXES in sidecars:
        arrays["bbox"] = numbers(BOXES, 5, np.float64).spread(ids)[:, 0].astype(np.float32)
    if PARTS in sidecars:
        num_parts = len(metadata.get("part_names", ()))
        arrays["parts"] = numbers(PARTS, 5, np.float64).spread(ids, True, num_parts).astype(np.float32)
    if ATTRIBUTES in sidecars:
        num_attributes = len(metadata.get("attribute_names", ()))
        # int32, and only the first three columns: 3.7 million lines, a few of which have more columns than they should.
        present = numbers(ATTRIBUTES, 3, np.int32).spread(ids, True, num_attributes)[:, :, 0]
        arrays["attributes"] = present.astype(np.uint8)
    kinds = {
        "bbox": FieldSpec(FieldKind.BOXES),
        "attributes": FieldSpec(FieldKind.MULTILABEL, tuple(metadata.get("attribute_names", ())) or None),
    }
    fields = {name: spec for name, spec in kinds.items() if name in arrays}
    return Table(names, arrays=arrays, splits=splits, metadata=metadata, fields=fields)


def _names(sidecars: Mapping[str, bytes]) -> dict[str, Any]:
    files = {"part_names": (PART_NAMES,), "attribute_names": ATTRIBUTE_NAMES}
    there = {key: next((name for name in names if name in sidecars), "") for key, names in files.items()}
    return {key: _numbered_lines(file, sidecars[file]) for key, file in there.items() if file}


def _numbered_lines(file: str, data: bytes) -> list[str]:
    numbered = dict(_id_and_text(file, data))
    if sorted(numbered) != list(range(1, len(numbered) + 1)):
        raise SourceError(f"{file}: its lines are not numbered from 1 to {len(numbered)}.")
    return [numbered[number] for number in sorted(numbered)]


def _id_and_text(file: str, data: bytes) -> list[tuple[int, str]]:
    pairs = []
    for number, line in enumerate(data.decode("utf-8", "surrogateescape").split("\n"), 1):
        words = line.split(maxsplit=1)
        if not words:
            continue
        if len(words) == 1 or not (words[0].isascii() and words[0].isdigit()):
            raise SourceError(f"{file}, line {number}: expected a number and a name, found {line[:80]!r}.")
        pairs.append((int(words[0]), words[1].strip()))
    return pairs


def _image_ids(names: Sequence[str], id_of: Mapping[str, int]) -> NDArray[np.int64]:
    """Return the id of each name; the list and the names must be the same set."""
    if lost := sorted(id_of.keys() - set(names)):
        raise SourceError(
            f"{IMAGE_LIST} lists {len(id_of)} images, but {counted(len(lost), 'is', 'are')} not in the raw data: "
            f"{_first(lost)}. {INCOMPLETE}"
        )
    if unlisted := [name for name in names if name not in id_of]:
        raise SourceError(
            f"{counted(len(unlisted), 'image is', 'images are')} in the raw data but not listed in {IMAGE_LIST}: "
            f"{_first(unlisted)}. Remove them, or remove the list to take all images without their annotations."
        )
    ids = np.array([id_of[name] for name in names], dtype=np.int64)
    if len(np.unique(ids)) != len(ids):
        twice = next(number for number in ids.tolist() if np.count_nonzero(ids == number) > 1)
        raise SourceError(f"{IMAGE_LIST}: two images have the number {twice}.")
    return ids


class _Numbers:
    """A text file of numbers, one row a line: an image's id, for some the number of a column, then values."""

    # Any: a number's precision.
    def __init__(self, file: str, data: bytes, num_columns: int, dtype: type[np.number[Any]]) -> None:
        self.file = file
        if not data.strip():
            raise SourceError(f"{file} is empty.")
        try:
            # Measured: 0.5 s for the 3.7 million lines (69 MB) of the attributes, memory for three int32 columns.
            self.rows: NDArray[Any] = np.loadtxt(
                io.BytesIO(data), dtype=dtype, usecols=range(num_columns), comments=None, ndmin=2
            )
        except ValueError as err:
            raise SourceError(f"{file} is not a table of {num_columns} or more numbers a line: {err}.") from err

    def spread(self, ids: NDArray[np.int64], numbered: bool = False, num_columns: int = 0) -> NDArray[Any]:
        """Put the values in the order of `ids`: [N, C, V], C = 1 unless the second column is a number from 1 to C."""
        positions = self._positions(ids)
        columns = self.rows[:, 1].astype(np.int64) - 1 if numbered else np.zeros(len(self.rows), np.int64)
        num_columns = num_columns or int(columns.max()) + 1
        if columns.min() < 0 or columns.max() >= num_columns or num_columns > _MAX_COLUMNS:
            raise SourceError(
                f"{self.file}: the second column goes from {columns.min() + 1} to {columns.max() + 1}; "
                f"expected 1 to {min(num_columns, _MAX_COLUMNS)}."
            )
        cells = positions * num_columns + columns
        is_there = np.zeros(len(ids) * num_columns, dtype=bool)
        is_there[cells] = True
        if not is_there.all():
            lacking = ids[np.flatnonzero(~is_there.reshape(len(ids), num_columns).all(axis=1))]
            raise SourceError(
                f"{self.file} is not complete: it lacks rows for {len(lacking)} of {len(ids)} images, "
                f"of which the first have the numbers {_first(sorted(lacking.tolist()))}."
            )
        values = self.rows[:, 2 if numbered else 1 :]
        spread = np.empty((len(ids) * num_columns, values.shape[1]), dtype=values.dtype)
        spread[cells] = values
        return spread.reshape(len(ids), num_columns, -1)

    def _positions(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        order = np.argsort(ids)
        row_ids = self.rows[:, 0].astype(np.int64)
        places = np.searchsorted(ids[order], row_ids).clip(max=len(ids) - 1)
        positions: NDArray[np.int64] = order[places]
        unknown = np.flatnonzero(ids[positions] != row_ids)
        if len(unknown):
            raise SourceError(f"{self.file}: {IMAGE_LIST} has no image with the number {row_ids[unknown[0]]}.")
        return positions


def _first(items: Sequence[object]) -> str:
    return ", ".join(str(item) for item in items[:3]) + (", ..." if len(items) > 3 else "")


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
