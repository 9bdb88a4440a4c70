"""Boxes, labels and masks of a record set's images as arrays, for sets from any source; no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.packages import need
from recordzoo.errors import CorruptRecordError
from recordzoo.images.decode import open_picture
from recordzoo.records.kinds import BoxFormat, FieldKind, FieldSpec
from recordzoo.records.manifest import OBJECT_LABELS
from recordzoo.records.reader import RecordReader

# Any, in all of this module: values are arrays of any dtype, images, or COCO's JSON.

_OWN_BOXES = FieldSpec(FieldKind.BOXES, None, BoxFormat.XYXY)
"""The meaning of boxes in sets of `convert` and `RecordWriter`, whose fields have no box format."""

_NUMBERS = (FieldKind.BOXES, FieldKind.INT, FieldKind.FLOAT, FieldKind.JSON)


@dataclass(frozen=True)
class Objects:
    """The fields of a record set with the objects of its images; "" for a field that the set lacks.

    Attributes:
        reader: The record set.
        boxes: Boxes, [n, 4] per record.
        box_spec: The meaning of their numbers.
        labels: Class numbers, [n] per record.
        masks: A mask for each object, [n, H, W] per record.
        annotations: Objects with polygons or run lengths, as in COCO's JSON.
        mask: One mask for the whole image.
    """

    reader: RecordReader
    boxes: str = ""
    box_spec: FieldSpec = _OWN_BOXES
    labels: str = ""
    masks: str = ""
    annotations: str = ""
    mask: str = ""

    def __bool__(self) -> bool:
        return bool(self.boxes or self.masks or self.mask)

    @property
    def names(self) -> Sequence[str]:
        """The class names of the labels; empty if unknown."""
        spec = self.reader.manifest.fields.get(self.labels)
        return (spec.names if spec is not None else None) or self.reader.manifest.classes or ()

    def boxes_of(self, position: int, size: tuple[int, int]) -> NDArray[np.float32]:
        """Return the boxes of a record as in torchvision: float32 [n, 4], XYXY, in pixels.

        `size` is width and height of the image.
        """
        boxes = self._numbers(self.boxes, position, np.float32, 4)
        if self.box_spec.is_normalized:
            boxes = boxes * np.array([*size, *size], np.float32)
        if self.box_spec.box_format == BoxFormat.CXCYWH:
            boxes[:, :2] -= boxes[:, 2:] / 2
        if self.box_spec.box_format != BoxFormat.XYXY:
            boxes[:, 2:] += boxes[:, :2]
        return boxes

    def labels_of(self, position: int) -> NDArray[np.int64]:
        """Return the class numbers of a record's objects: int64 [n]."""
        return self._numbers(self.labels, position, np.int64)

    def masks_of(self, position: int, size: tuple[int, int]) -> NDArray[np.uint8]:
        """Return a mask for each object of a record: uint8 [n, H, W].

        Polygons and run lengths are drawn by pycocotools, as in torchvision.
        """
        width, height = size
        if self.masks:
            masks = self._value(self.masks, position)
            return np.zeros((0, height, width), np.uint8) if not np.size(masks) else np.array(masks, np.uint8)
        need("pycocotools", "Polygons become masks")
        shapes = [each.get("segmentation", []) for each in self.outlines_of(position, size)]
        masks = [_rasterized(shape, height, width) for shape in shapes]
        return np.stack(masks) if masks else np.zeros((0, height, width), np.uint8)

    def outlines_of(self, position: int, size: tuple[int, int]) -> list[Any]:
        """Return the annotations of a record, with polygons in pixels."""
        found = self._value(self.annotations, position)
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            raise self._wrong(self.annotations, position)
        if not self.reader.manifest.fields[self.annotations].is_normalized:
            return found
        scale = np.array(size, np.float64)
        return [
            {**each, "segmentation": [(np.reshape(p, (-1, 2)) * scale).ravel().tolist() for p in each["segmentation"]]}
            for each in found
        ]

    def mask_of(self, position: int) -> Any:
        """Return the mask of a record's image: a PIL image in its own mode, or an array [H, W]."""
        return self._value(self.mask, position)

    def _numbers(self, field: str, position: int, dtype: Any, columns: int = 0) -> NDArray[Any]:
        try:
            found = np.array(self._value(field, position), dtype)
            return found.reshape(-1, columns) if columns else found.reshape(-1)
        except (TypeError, ValueError):
            raise self._wrong(field, position) from None

    def _value(self, field: str, position: int) -> Any:
        blob = self.reader.manifest.blobs.get(field)
        if blob is not None and not self.reader.has(field, position):
            return []
        if blob is not None and blob.encoding == "image":
            return open_picture(self.reader, position, field)
        return self.reader.value(field, position)

    def _wrong(self, field: str, position: int) -> CorruptRecordError:
        name = self.reader.names[position]
        return CorruptRecordError(f"{self.reader.path}: {name} has no valid {field}.", name=name)


def find_objects(reader: RecordReader) -> Objects:
    """Find the fields with boxes and masks by their specs, otherwise by their names."""
    fields = reader.manifest.fields
    boxes = next((name for name, spec in fields.items() if spec.box_format is not None), "")
    spec = fields.get(boxes, _OWN_BOXES)

    def named(name: str, *kinds: FieldKind) -> str:
        return name if name in fields and fields[name].kind in kinds else ""

    blobs, arrays = reader.manifest.blobs, reader.manifest.arrays
    is_column = "boxes" in arrays and len(arrays["boxes"].shape) < 2  # one number per record, such as a count
    masks = [name for name, each in fields.items() if each.kind is FieldKind.MASKS]
    whole = next((name for name in masks if name in blobs and blobs[name].encoding == "image"), "")
    return Objects(
        reader,
        boxes or ("" if is_column else named("boxes", *_NUMBERS)),
        spec,
        named(OBJECT_LABELS, FieldKind.CLASS, *_NUMBERS),
        next((name for name in masks if name != whole), "") or named("masks", FieldKind.IMAGE, *_NUMBERS),
        named("annotations", FieldKind.JSON) if boxes else "",
        whole or named("mask", FieldKind.IMAGE, FieldKind.INT),
    )


def _rasterized(shape: Any, height: int, width: int) -> NDArray[np.uint8]:
    from pycocotools import mask

    if not shape:
        return np.zeros((height, width), np.uint8)
    if isinstance(shape, list):
        shape = mask.merge(mask.frPyObjects(shape, height, width))
    elif not isinstance(shape["counts"], str):
        shape = mask.frPyObjects(shape, height, width)
    decoded: NDArray[np.uint8] = mask.decode(shape)
    return decoded
