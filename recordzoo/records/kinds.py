"""What a record set may be, and what its fields may be: the words of the format."""

from dataclasses import dataclass
from enum import StrEnum


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
    COMBINED = "combined"
    OWN = "own"


class FieldKind(StrEnum):
    """What the values of a field are."""

    CLASS = "class"
    """The number of a class, -1 for none."""
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


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """What a field is.

    Attributes:
        kind: What its values are.
        names: Of CLASS and MULTILABEL, what the numbers are called, in their order; None if that is not known.
    """

    kind: FieldKind
    names: tuple[str, ...] | None = None
