"""Boxes, masks and captions drawn on small pictures."""

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from recordzoo.images.objects import Objects, find_objects
from recordzoo.records.kinds import FieldKind
from recordzoo.records.reader import RecordReader

_COLOURS = (
    "#e6194b",
    "#3cb44b",
    "#ffe119",
    "#4363d8",
    "#f58231",
    "#42d4f4",
    "#f032e6",
    "#bfef45",
    "#fabed4",
    "#9a6324",
)
_COVER = 110  # opacity of a mask, out of 255
_VOID = 255  # value of a mask where the class is not known
_CAPTIONS = ("caption", "captions", "text")
_MOST_OBJECTS = 200
_MOST_NAMES = 4


def draw_objects(image: Image.Image, reader: RecordReader, position: int, size: tuple[int, int]) -> Image.Image:
    """Draw the masks and boxes of a record on its small picture; annotations that cannot be read are left out.

    `size` is the width and height of the stored image.
    """
    found = find_objects(reader)
    if not found:
        return image
    try:
        return _drawn(image, found, position, size)
    except Exception:  # noqa: BLE001 - untrusted annotations may be anything; the image is still shown
        return image


def caption_of(reader: RecordReader, position: int) -> str:
    """Return a line about a record: how many objects of each class it has, or its text; "" if it has neither."""
    found = find_objects(reader)
    try:
        if found.boxes and found.labels:
            return _counted(found, position)
        fields = reader.manifest.fields
        texts = [name for name, spec in fields.items() if spec.kind is FieldKind.TEXT]
        named = [name for name in _CAPTIONS if name in fields and fields[name].kind is FieldKind.JSON]
        field = next((name for name in [*(n for n in _CAPTIONS if n in texts), *named, *texts[:1]]), "")
        value = reader.value(field, position) if field else ""
    except Exception:  # noqa: BLE001 - as above
        return ""
    if isinstance(value, list) and value:
        value = value[0]
    return value if isinstance(value, str) else ""


def _counted(found: Objects, position: int) -> str:
    counts = Counter(found.labels_of(position).tolist())
    names = [_name(found, label) + (f" x {count}" if count > 1 else "") for label, count in sorted(counts.items())]
    return ", ".join([*names[:_MOST_NAMES], *(["..."] if len(names) > _MOST_NAMES else [])]) or "no objects"


def _name(found: Objects, label: int) -> str:
    return found.names[label] if 0 <= label < len(found.names) else str(label)


def _drawn(image: Image.Image, found: Objects, position: int, size: tuple[int, int]) -> Image.Image:
    labels = found.labels_of(position).tolist()[:_MOST_OBJECTS] if found.labels else []
    scale = np.array([image.width / size[0], image.height / size[1]])

    def colour(number: int) -> str:
        return _COLOURS[(labels[number] if number < len(labels) else number) % len(_COLOURS)]

    if found.mask:
        image = _covered(image, np.array(found.mask_of(position)))
    if found.masks:
        for number, mask in enumerate(found.masks_of(position, size)[:_MOST_OBJECTS]):
            image = _painted(image, Image.fromarray((mask != 0).astype(np.uint8) * _COVER), colour(number))
    elif found.annotations:
        image = _outlined(image, found.outlines_of(position, size)[:_MOST_OBJECTS], scale, colour)
    if found.boxes:
        draw = ImageDraw.Draw(image)
        boxes = (found.boxes_of(position, size)[:_MOST_OBJECTS].reshape(-1, 2, 2) * scale).clip(-2, 10_000)
        for number, ((left, top), (right, bottom)) in enumerate(boxes.tolist()):
            if left <= right and top <= bottom:
                draw.rectangle((left, top, right, bottom), outline=colour(number), width=2)
    return image


# Any: a function.
def _outlined(image: Image.Image, objects: list[Any], scale: NDArray[np.float64], colour: Any) -> Image.Image:
    """Fill the polygons of objects; for run lengths only the boxes are drawn."""
    for number, each in enumerate(objects):
        polygons = each.get("segmentation")
        cover = Image.new("L", image.size)
        for polygon in polygons if isinstance(polygons, list) else []:
            points = (np.reshape(polygon, (-1, 2)) * scale).ravel().tolist()
            if len(points) >= 6:
                ImageDraw.Draw(cover).polygon(points, fill=_COVER)
        image = _painted(image, cover, colour(number))
    return image


def _covered(image: Image.Image, mask: NDArray[Any]) -> Image.Image:
    """Paint each class of a mask [H, W] except 0, the background."""
    if mask.ndim != 2:
        return image
    for label in np.unique(mask)[:_MOST_OBJECTS].tolist():
        if label not in (0, _VOID):
            place = Image.fromarray((mask == label).astype(np.uint8) * _COVER)
            image = _painted(image, place, _COLOURS[int(label) % len(_COLOURS)])
    return image


def _painted(image: Image.Image, cover: Image.Image, colour: str) -> Image.Image:
    cover = cover if cover.size == image.size else cover.resize(image.size, Image.Resampling.NEAREST)
    image.paste(Image.new("RGB", image.size, colour), (0, 0), cover)
    return image
