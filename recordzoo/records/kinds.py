"""The kinds of record sets and of fields, in the words of the format."""

from dataclasses import dataclass
from enum import StrEnum

from recordzoo.base.text import JSON


class SetKind(StrEnum):
    """The source of a record set; a variant has the kind of its source.

    The records of ZOO and FOLDER are in the order of the class that reads them. All other kinds come from the user: any
    names, also absolute ones, in any order, and any targets.
    """

    ZOO = "zoo"
    FOLDER = "folder"
    FLAT = "flat"
    LIST = "list"
    IMPORTED = "imported"
    ANNOTATED = "annotated"
    COMBINED = "combined"
    OWN = "own"

    @property
    def text(self) -> str:
        """The content of such a set in words; "" if the dataset's name describes it."""
        return _TEXTS.get(self, "")


_TEXTS = {
    SetKind.FOLDER: "images in classes",
    SetKind.FLAT: "images without classes",
    SetKind.LIST: "images of a list",
    SetKind.ANNOTATED: "images with annotations",
    SetKind.COMBINED: "other record sets",
    SetKind.OWN: "own data",
}


class FieldKind(StrEnum):
    """The meaning of a field's values."""

    CLASS = "class"
    """A class number, -1 for none; or, as raw integers [n], the class numbers of an image's n objects."""
    INT = "int"
    FLOAT = "float"
    MULTILABEL = "multilabel"
    """One number for each of several attributes."""
    TEXT = "text"
    BOXES = "boxes"
    MASKS = "masks"
    IMAGE = "image"
    BYTES = "bytes"
    JSON = "json"


class BoxFormat(StrEnum):
    """The meaning of a box's four numbers: two corners, a corner and the size, or the centre and the size."""

    XYXY = "XYXY"
    XYWH = "XYWH"
    CXCYWH = "CXCYWH"


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """The meaning of a field.

    Attributes:
        kind: The meaning of its values.
        names: For CLASS and MULTILABEL, the names of the numbers, in order; None if unknown.
        box_format: For BOXES, the meaning of their numbers; None if unknown.
        is_normalized: For BOXES and JSON, whether coordinates are fractions of the image's size, not pixels.
    """

    kind: FieldKind
    names: tuple[str, ...] | None = None
    box_format: BoxFormat | None = None
    is_normalized: bool = False

    def to_json(self) -> dict[str, JSON]:
        """Return the field's entry for the manifest; ``format`` and ``normalized`` only if known."""
        said: dict[str, JSON] = {"kind": self.kind, "names": None if self.names is None else list(self.names)}
        if self.box_format is not None:
            said["format"] = self.box_format
        return {**said, "normalized": True} if self.is_normalized else said
