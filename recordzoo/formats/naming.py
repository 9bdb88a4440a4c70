"""Names: which keys of other tools become which fields, and the files that records are exported to."""

import hashlib
import itertools
import re
from collections.abc import Container, Mapping, Sequence
from typing import Any

from recordzoo.errors import ArgumentError
from recordzoo.recipes.images import sniffed_ending
from recordzoo.records.manifest import is_field_name
from recordzoo.system.names import as_file_name

IMAGES = (
    "image/encoded",
    *("images", "image", "imgs", "img", "jpg", "jpeg", "png", "webp", "image_raw"),
    *("img_data", "image_data", "bson_img", "image_bytes", "img_bytes", "picture", "photo"),
    *("pixels", "x", "set_x", "data", "content", "inputs", "input"),
)
"""Usual keys of images, the most usual first."""

LABELS = (
    "image/class/label",
    *("target", "targets", "label", "labels", "y", "set_y", "ans", "img_label", "image_label"),
    *("class_id", "label_id", "class_index", "category_id", "class", "classes"),
)
"""Usual keys of labels, the most usual first."""

SPLITS = ("train", "training", "val", "valid", "validation", "dev", "test", "testing", "eval", "extra", "unsupervised")
"""Usual words for splits, in the order in which they are listed."""

_NO_NAME = re.compile(r"[^a-z0-9_]+")
_LONGEST = 64
_ENDING = re.compile(r"\.(jpe?g|png|ppm|bmp|pgm|tiff?|webp|gif)", re.IGNORECASE)
_MAX_FILE_NAME = 200  # bytes


def field_name(key: str) -> str:
    """Return a valid name of a field for a key: ``image/class/text`` becomes ``image_class_text``."""
    name = _NO_NAME.sub("_", key.lower()).strip("_")[:_LONGEST]
    if not is_field_name(name):
        name = f"field_{name}".rstrip("_")[:_LONGEST]
    return name


def split_name(text: str) -> str:
    """Return a valid name of a split: small letters, digits and "-" only."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def usual_key(named: Mapping[str, str], field: str, keys: Container[str], table: Sequence[str]) -> str | None:
    """Return the key that becomes a field by its usual name; None if the user named a key for the field.

    Args:
        named: The fields of keys, as named by the user.
        field: The field.
        keys: The possible keys.
        table: The usual names, the most usual first.
    """
    if field in named.values():
        return None
    return next((key for key in table if key in keys and key not in named), None)


# Any, here and below: values of all kinds.
def usual_fields(location: str, named: Mapping[str, str], columns: Mapping[str, Sequence[Any]]) -> dict[str, str]:
    """Return the key that becomes "image", because it holds images, and the one that becomes "target", by its name.

    Args:
        location: For messages.
        named: The fields of keys that the user named. They win.
        columns: The first values of each key.
    """
    usual: dict[str, str] = {}
    images = {key.lower(): key for key, values in columns.items() if key not in named and holds_images(values)}
    if images and "image" not in named.values():
        key = next(iter(images)) if len(images) == 1 else usual_key(named, "image", images, IMAGES)
        if key is None:
            keys = list(images.values())
            raise ArgumentError(
                f"{location}: {', '.join(map(repr, keys))} hold images. Say which one is the field image: "
                f"--field {keys[0]}=image, or fields={{{keys[0]!r}: 'image'}}."
            )
        usual[images[key]] = "image"
    others = {key.lower(): key for key in columns if key not in named and not holds_images(columns[key])}
    label = usual_key(named, "target", others, LABELS)
    return usual | ({others[label]: "target"} if label else {})


def holds_images(values: Sequence[Any]) -> bool:
    """Whether the first value that is not None is an encoded image."""
    first = next((value for value in values if value is not None), None)
    return isinstance(first, bytes) and sniffed_ending(first) != ""


def image_ending(sample: Mapping[str, Any]) -> str:
    """Return the suffix for the record's name: that of its image's file."""
    image = sample.get("image")
    return sniffed_ending(image) if isinstance(image, bytes) else ""


def printable(text: str) -> str:
    """Return a text that UTF-8 can encode: other bytes of a file's name become ``\\xff``."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def split_ending(name: str) -> tuple[str, str]:
    """Split a name into stem and image suffix; "" if it has no such suffix."""
    stem, dot, rest = name.rpartition(".")
    return (stem, f".{rest}") if stem and _ENDING.fullmatch(f"{dot}{rest}") else (name, "")


def file_name(text: str) -> str:
    """Return a text as the name of a file or directory: no separators, not hidden, at most 200 bytes."""
    name = as_file_name(printable(text).replace("/", "_").replace("\0", "_"))
    if not name or name.startswith("."):
        name = f"_{name}"
    data = name.encode()
    if len(data) <= _MAX_FILE_NAME:
        return name
    digest = hashlib.sha256(data).hexdigest()[:12]
    return f"{digest}-{data[-_MAX_FILE_NAME + 20 :].decode('utf-8', 'ignore')}"


def choose(taken: set[str], *names: str, start: str = "", end: str = "") -> str:
    """Take the first of some names that is free, or else the last one with a number.

    Case is ignored, as by the file systems of macOS and Windows.

    Args:
        taken: The names that are taken; the chosen one is added.
        names: The names, the best one first.
        start: Stands before each name.
        end: Stands behind each name.
    """
    numbered = (f"{names[-1]}-{number}" for number in itertools.count(2))
    all_names = (f"{start}{name}{end}" for name in itertools.chain(names, numbered))
    chosen = next(name for name in all_names if name.casefold() not in taken)
    taken.add(chosen.casefold())
    return chosen
