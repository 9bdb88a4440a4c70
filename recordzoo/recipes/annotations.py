"""The annotations of a directory's images, in the same form for all formats."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.program import command
from recordzoo.base.types import JSON
from recordzoo.errors import SourceError
from recordzoo.recipes.class_folders import SPLIT_NAMES
from recordzoo.records.arrays import leads_out
from recordzoo.records.kinds import BoxFormat

_NUM_SHOWN = 20


@dataclass(frozen=True)
class Annotations:
    """The N images of a directory with their annotations.

    Attributes:
        format: "coco", "yolo" or "masks".
        files: The annotation files, relative to the directory.
        images: The images, relative to the directory with "/" between the parts, in the order of the records.
        splits: int64 positions of each split.
        boxes: Boxes of each image, float32 [n, 4]; empty for masks.
        labels: Classes of each image's objects, int64 [n], from 0; empty for masks.
        texts: Annotations of each image as JSON; empty if boxes and labels contain everything.
        masks: Mask file of each image; empty for boxes.
        image_ids: int64 [N], if the files number the images.
        classes: The class names, if known.
        box_format: The meaning of a box's numbers.
        is_normalized: Whether coordinates are fractions of the image's width and height.
        metadata: Further values for the manifest.
        remarks: Remarks for the user.
    """

    format: str
    files: Sequence[str]
    images: Sequence[str]
    splits: Mapping[str, NDArray[np.int64]]
    boxes: Sequence[NDArray[np.float32]] = ()
    labels: Sequence[NDArray[np.int64]] = ()
    texts: Sequence[bytes] = ()
    masks: Sequence[str] = ()
    image_ids: NDArray[np.int64] | None = None
    classes: tuple[str, ...] | None = None
    box_format: BoxFormat | None = None
    is_normalized: bool = False
    metadata: Mapping[str, JSON] = field(default_factory=dict)
    remarks: Sequence[str] = ()

    def kept(self, keep: NDArray[np.bool_]) -> "Annotations":
        """Return the annotations of some of the images."""
        chosen, new_position = np.flatnonzero(keep).tolist(), np.cumsum(keep) - 1
        columns: dict[str, Any] = {}  # Any: several types
        for name in ("images", "boxes", "labels", "texts", "masks"):
            values = getattr(self, name)
            columns[name] = [values[number] for number in chosen] if len(values) else values
        ids = None if self.image_ids is None else self.image_ids[keep]
        splits = {name: new_position[found[keep[found]]] for name, found in self.splits.items()}
        return replace(self, **columns, image_ids=ids, splits=splits)

    # Any: either dtype.
    def arrays(self) -> dict[str, Sequence[NDArray[Any]]]:
        """Return boxes and labels, if any."""
        return {"boxes": self.boxes, "labels": self.labels} if len(self.boxes) else {}

    @property
    def shown(self) -> str:
        """A summary for the user to check."""
        what = [f"{self.format} annotations", f"{len(self.images):,} images"]
        if self.boxes:
            what.append(f"{sum(map(len, self.boxes)):,} boxes ({self.box_format})")
        if self.texts and self.is_normalized:
            what.append("polygons")
        if self.masks:
            what.append("a mask for each")
        if self.boxes:
            what.append("classes without names" if self.classes is None else f"{len(self.classes):,} classes")
        splits = ", ".join(f"{name} ({len(found):,})" for name, found in self.splits.items())
        return "; ".join([f"{', '.join(what)}; {f'splits: {splits}' if splits else 'no splits'}", *self.remarks])


class Problems:
    """Collects the problems of a directory's annotation files."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._found: list[str] = []

    def add(self, text: str) -> None:
        """Add a problem."""
        self._found.append(text)

    def raise_if_any(self) -> None:
        """Raise an error with the first problems and the number of further ones.

        Raises:
            SourceError: There is a problem.
        """
        if not self._found:
            return
        more = f"; and {len(self._found) - _NUM_SHOWN:,} more" if len(self._found) > _NUM_SHOWN else ""
        raise SourceError(
            f"{self._root} cannot be used: {'; '.join(self._found[:_NUM_SHOWN])}{more}. To read its folders as "
            f"classes, run: {command('prepare', self._root, '--from', 'classes')}",
            path=str(self._root),
            problems=tuple(self._found),
        )


def is_file_name(name: str) -> bool:
    """Whether a path in an annotation file, with "/" between its parts, stays inside the directory."""
    try:
        name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return not leads_out(name) and "\0" not in name and name != "."


def is_split(folder: str) -> bool:
    """Whether a folder has the name of a split, maybe with a year: "train2017"."""
    return folder.lower().rstrip("0123456789") in SPLIT_NAMES


def slug(text: str) -> str:
    """Convert a text to the characters of a split's name: lower-case letters, digits and "-"."""
    return re.sub("[^a-z0-9]+", "-", text.lower()).strip("-")[:64]


def split_name(text: str) -> str:
    """Convert a text to a split's name; the year of "train2017" is dropped."""
    name = slug(text)
    return name.rstrip("0123456789") if is_split(name) else name
