"""Names of records → names of files: valid, unique in their folder, and as they were wherever that is possible."""

import hashlib
import itertools
import re
from collections.abc import Iterable, Sequence

from recordzoo.exporting.samples import printable
from recordzoo.system.names import as_file_name

_ENDING = re.compile(r"\.(jpe?g|png|ppm|bmp|pgm|tiff?|webp|gif)", re.IGNORECASE)
_MAX_BYTES = 200


def split_ending(name: str) -> tuple[str, str]:
    """Split a name into what stands before an image's ending, and that ending; "" if it has none."""
    stem, dot, rest = name.rpartition(".")
    return (stem, f".{rest}") if stem and _ENDING.fullmatch(f"{dot}{rest}") else (name, "")


def part(text: str) -> str:
    """Return a text as the name of a file or directory: no separators, not hidden, at most 200 bytes."""
    name = as_file_name(printable(text).replace("/", "_").replace("\0", "_"))
    if not name or name.startswith("."):
        name = f"_{name}"
    data = name.encode()
    if len(data) <= _MAX_BYTES:
        return name
    digest = hashlib.sha256(data).hexdigest()[:12]
    return f"{digest}-{data[-_MAX_BYTES + 20 :].decode('utf-8', 'ignore')}"


class Taken:
    """The names that are given away, without regard to case: file systems of macOS and Windows know none."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._stems: set[str] = set()
        self._open: set[str] = set()  # stems whose ending is not known yet

    def take(self, folder: str, name: str) -> bool:
        """Give a name away; False if it, or one that may become the same, is taken."""
        stem, ending = split_ending(name)
        stem = f"{folder}/{stem}".casefold()
        full = f"{stem}{ending}".casefold()
        if stem in self._open or (stem in self._stems if not ending else full in self._names):
            return False
        self._stems.add(stem)
        (self._names if ending else self._open).add(full)
        return True


def unique(names: Iterable[str], folders: Sequence[str], *, whole: bool = False, dots: bool = True) -> list[str]:
    """Choose the name of each record's file in its folder.

    It is the last part of the record's name. If that is taken, it is the whole name with "_" for "/", and if that is
    taken too, a number stands behind it.

    Args:
        names: The records' names; without an ending where the image's bytes decide it.
        folders: The folder of each, which "" need not have.
        whole: Keep the folders of the record's own name instead.
        dots: Whether a name may have dots, beside that of its ending.
    """
    taken, found = Taken(), []
    for name, folder in zip(names, folders, strict=True):
        stem, ending = split_ending(printable(name))
        parts = [piece for piece in stem.split("/") if piece] or ["_"]
        if not dots:
            parts[-1] = parts[-1].replace(".", "_")
        flat = part("_".join(parts))
        plain = "/".join(map(part, parts)) if whole else part(parts[-1])
        numbered = (f"{flat}-{number}" for number in itertools.count(2))
        chosen = next(c for c in itertools.chain((plain, flat), numbered) if taken.take(folder, f"{c}{ending}"))
        found.append("/".join(filter(None, (folder, f"{chosen}{ending}"))))
    return found


def class_folders(classes: Sequence[str]) -> list[str]:
    """Choose the directory of each class; two classes of one name get two."""
    taken, found = set(), []
    for name in classes:
        plain = part(name)
        numbered = (f"{plain}-{number}" for number in itertools.count(2))
        chosen = next(c for c in itertools.chain((plain,), numbered) if c.casefold() not in taken)
        taken.add(chosen.casefold())
        found.append(chosen)
    return found
