"""Columns of a table, or keys of documents, as fields: which one is the image, which one the label."""

from collections.abc import Mapping, Sequence
from typing import Any

from recordzoo.errors import ArgumentError
from recordzoo.formats.base import Foreign
from recordzoo.recipes.images import sniffed_ending

_IMAGES = (
    "image",
    "img",
    "img_data",
    "image_data",
    "bson_img",
    "image_bytes",
    "img_bytes",
    "picture",
    "photo",
    "data",
    "content",
)
_LABELS = ("target", "label", "img_label", "image_label", "class_id", "label_id", "class_index", "category_id", "class")


# Any, here and below: values of all kinds.
def columns_as_fields(foreign: Foreign, columns: Mapping[str, Sequence[Any]]) -> dict[str, str]:
    """Return the field that each column becomes.

    The column that holds images becomes "image", the one with a usual name of labels "target". Others keep their own
    names. Names that the person gives win.

    Args:
        foreign: Has the names that the person gives.
        columns: The first values of each column.

    Raises:
        ArgumentError: Several columns hold images, or two columns would become one field.
    """
    named = foreign.fields
    usual: dict[str, str] = {}
    if "image" not in named.values():
        image = _image_column(foreign, {key: values for key, values in columns.items() if key not in named})
        usual |= {image: "image"} if image else {}
    if "target" not in named.values():
        free = {key.lower(): key for key in columns if key not in named and not holds_images(columns[key])}
        label = next((free[name] for name in _LABELS if name in free), None)
        usual |= {label: "target"} if label else {}
    return foreign.name_fields(list(columns), usual)


def holds_images(values: Sequence[Any]) -> bool:
    """Whether the first value that is there is an encoded image."""
    first = next((value for value in values if value is not None), None)
    return isinstance(first, bytes) and sniffed_ending(first) != ""


def image_ending(sample: Mapping[str, Any]) -> str:
    """Return the ending for the record's name: that of its image's file."""
    image = sample.get("image")
    return sniffed_ending(image) if isinstance(image, bytes) else ""


def _image_column(foreign: Foreign, columns: Mapping[str, Sequence[Any]]) -> str | None:
    found = {key.lower(): key for key, values in columns.items() if holds_images(values)}
    if len(found) < 2:
        return next(iter(found.values()), None)
    usual = next((found[name] for name in _IMAGES if name in found), None)
    if usual is None:
        keys = list(found.values())
        raise ArgumentError(
            f"{foreign.location}: {', '.join(map(repr, keys))} hold images. Say which one is the field image: "
            f"--field {keys[0]}=image, or fields={{{keys[0]!r}: 'image'}}."
        )
    return usual
