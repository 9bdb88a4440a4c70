"""What a record set may be, and what its fields may be: the words of the format."""

from dataclasses import dataclass
from enum import StrEnum

from recordzoo.base.types import JSON


class SetKind(StrEnum):
    """What a record set was made from; a variant has the kind of its source.

    The records of ZOO and FOLDER are in the order of the class that reads them. Those of all other kinds were listed by
    somebody: any names, absolute ones too, in any order, and any targets.
    """

    ZOO = "zoo"
    FOLDER = "folder"
    FLAT = "flat"
    LIST = "list"
    IMPORTED = "imported"
    ANNOTATED = "annotated"
    COMBINED = "combined"
    OWN = "own"


class FieldKind(StrEnum):
    """What the values of a field are."""

    CLASS = "class"
    """The number of a class, -1 for none; or as raw whole numbers [n] those of the n objects in an image."""
    INT = "int"
    FLOAT = "float"
    MULTILABEL = "multilabel"
    """A number for each of several attributes."""
    TEXT = "text"
    BOXES = "boxes"
    MASKS = "masks"
    IMAGE = "image"
    BYTES = "bytes"
    JSON = "json"


class BoxFormat(StrEnum):
    """What the four numbers of a box are: two corners, a corner and the size, or the centre and the size."""

    XYXY = "XYXY"
    XYWH = "XYWH"
    CXCYWH = "CXCYWH"


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """What a field is.

    Attributes:
        kind: What its values are.
        names: Of CLASS and MULTILABEL, what the numbers are called, in their order; None if that is not known.
        box_format: Of BOXES, what their numbers are; None if that is not known.
        is_normalized: Of BOXES and JSON, whether coordinates are fractions of the image's width and height, not pixels.
    """

    kind: FieldKind
    names: tuple[str, ...] | None = None
    box_format: BoxFormat | None = None
    is_normalized: bool = False

    def to_json(self) -> dict[str, JSON]:
        """Return what the manifest says of the field; ``format`` and ``normalized`` only where they are known."""
        said: dict[str, JSON] = {"kind": self.kind, "names": None if self.names is None else list(self.names)}
        if self.box_format is not None:
            said["format"] = self.box_format
        return {**said, "normalized": True} if self.is_normalized else said
