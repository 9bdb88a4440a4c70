"""What a record set may be: the words of the format for it."""

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
