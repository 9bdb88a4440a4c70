"""The annotation files of CUB-200-2011, read into arrays over the positions of its images."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordzoo.errors import SourceError
from recordzoo.recipes.recipe import INCOMPLETE
from recordzoo.records.kinds import FieldKind, FieldSpec

_FOLDER = "CUB_200_2011/"
IMAGE_LIST = _FOLDER + "images.txt"
SPLIT = _FOLDER + "train_test_split.txt"
BOXES = _FOLDER + "bounding_boxes.txt"
PART_NAMES = _FOLDER + "parts/parts.txt"
PARTS = _FOLDER + "parts/part_locs.txt"
ATTRIBUTES = _FOLDER + "attributes/image_attribute_labels.txt"
# At the archive's top level, although its README says otherwise; some people moved it to where the README has it.
ATTRIBUTE_NAMES = ("attributes.txt", _FOLDER + "attributes/attributes.txt")

FILES = (IMAGE_LIST, SPLIT, BOXES, PART_NAMES, PARTS, ATTRIBUTES, *ATTRIBUTE_NAMES)

NEEDS = {"image_id": IMAGE_LIST, "bbox": BOXES, "parts": PARTS, "attributes": ATTRIBUTES}
"""The file of each array. All but the first also need the list of images, which has the ids."""

_MAX_COLUMNS = 4096  # a forged part or attribute number must not become an allocation; the real ones are 15 and 312


@dataclass(frozen=True)
class Annotations:
    """The contents of the existing annotation files."""

    # Any: arrays of several dtypes; JSON values.
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    splits: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, FieldSpec] = field(default_factory=dict)


def parse(names: Sequence[str], sidecars: Mapping[str, bytes]) -> Annotations:
    """Read the existing annotation files.

    Args:
        names: Images in canonical order, relative to ``CUB_200_2011/images``.
        sidecars: The files by name.

    Raises:
        SourceError: The list of images is not the images that are there, or a file is broken or not whole.
    """
    metadata = _names(sidecars)
    if IMAGE_LIST not in sidecars:
        return Annotations(metadata=metadata)
    id_of = {name: image_id for image_id, name in _id_and_text(IMAGE_LIST, sidecars[IMAGE_LIST])}
    ids = _image_ids(names, id_of)

    def table(file: str, num_columns: int, dtype: type[np.number[Any]]) -> _Table:
        return _Table(file, sidecars[file], num_columns, dtype)

    arrays: dict[str, NDArray[Any]] = {"image_id": ids}
    splits: dict[str, NDArray[np.int64]] = {}
    if SPLIT in sidecars:
        is_train = table(SPLIT, 2, np.int64).spread(ids)[:, 0, 0]
        splits = {"train": np.flatnonzero(is_train == 1), "test": np.flatnonzero(is_train != 1)}
    if BOXES in sidecars:
        arrays["bbox"] = table(BOXES, 5, np.float64).spread(ids)[:, 0].astype(np.float32)
    if PARTS in sidecars:
        num_parts = len(metadata.get("part_names", ()))
        arrays["parts"] = table(PARTS, 5, np.float64).spread(ids, True, num_parts).astype(np.float32)
    if ATTRIBUTES in sidecars:
        num_attributes = len(metadata.get("attribute_names", ()))
        # int32, and only the first three columns: 3.7 million lines, a few of which have more columns than they should.
        present = table(ATTRIBUTES, 3, np.int32).spread(ids, True, num_attributes)[:, :, 0]
        arrays["attributes"] = present.astype(np.uint8)
    kinds = {
        "bbox": FieldSpec(FieldKind.BOXES),
        "attributes": FieldSpec(FieldKind.MULTILABEL, tuple(metadata.get("attribute_names", ())) or None),
    }
    return Annotations(arrays, splits, metadata, {name: spec for name, spec in kinds.items() if name in arrays})


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
            f"{IMAGE_LIST} lists {len(id_of)} images, but {len(lost)} of them are not in the raw data: {_first(lost)}. "
            f"{INCOMPLETE}"
        )
    if unlisted := [name for name in names if name not in id_of]:
        raise SourceError(
            f"{len(unlisted)} images are in the raw data but not listed in {IMAGE_LIST}: {_first(unlisted)}. "
            "Remove them, or remove the list to take all images without their annotations."
        )
    ids = np.array([id_of[name] for name in names], dtype=np.int64)
    if len(np.unique(ids)) != len(ids):
        twice = next(number for number in ids.tolist() if np.count_nonzero(ids == number) > 1)
        raise SourceError(f"{IMAGE_LIST}: two images have the number {twice}.")
    return ids


class _Table:
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
