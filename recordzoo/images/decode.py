"""Images: opened, with the size known, and any part decoded on demand; Pillow's decoding; boxes and masks as arrays.

A random crop needs about half of a photograph's pixels; which half depends on the photograph's size.
"""

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from recordzoo.base.settings import need
from recordzoo.errors import ArgumentError, CorruptRecordError, ImageError, RecordError
from recordzoo.images.turbojpeg import Box, Decompressor, UnusualImage, library
from recordzoo.recipes.recipe import is_plain_jpeg, open_image
from recordzoo.records.manifest import NO_SHARD, OBJECT_LABELS, BoxFormat, FieldKind, FieldSpec, SetKind
from recordzoo.records.reader import RecordReader

_CHANNELS = ((), (1,), (3,), (4,))
_LOOKED_AT_ONCE = 1 << 20


_is_deferring = ContextVar("_is_deferring", default=False)


def decode_rgb(data: bytes) -> Image.Image:
    """Decode an encoded image to RGB, as `torchvision.datasets.folder.pil_loader` does; see also `deferring`."""
    return Deferred(data) if _is_deferring.get() else decoded_rgb(data)


def decoded_rgb(data: bytes) -> Image.Image:
    """Decode an encoded image to RGB at once, also within `deferring`."""
    return open_image(data).convert("RGB")


def decode(data: bytes) -> Image.Image:
    """Decode an encoded image in its own mode."""
    image = open_image(data)
    image.load()
    return image


class RecordName:
    """A record's name for messages, looked up on demand: the names of a large set take gigabytes."""

    __slots__ = ("_before", "_position", "_reader")

    def __init__(self, reader: RecordReader, position: int, before: str = "") -> None:
        self._reader, self._position, self._before = reader, position, before

    def __str__(self) -> str:
        return self._before + self._reader.names[self._position]


class naming:  # a context manager, like `contextlib.suppress`; a generator is four times as slow
    """Add the record set and the file to errors of decoding.

    Args:
        name: The file's name; converted to a string only on an error.

    Raises:
        ImageError: Pillow could not identify or read the image; an OSError, as for a file.
        Exception: Any other error of the decoder, of its own type, with the name as a note.
    """

    __slots__ = ("_name", "_record_set")

    def __init__(self, record_set: str | os.PathLike[str], name: object) -> None:
        self._record_set, self._name = record_set, name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, traceback: object) -> None:
        if isinstance(err, Exception):
            name_in(err, self._record_set, self._name)


def name_in(err: Exception, record_set: str | os.PathLike[str], name: object) -> None:
    """Add the record set and the file to an error of decoding, as `naming` does; the caller re-raises it."""
    if isinstance(err, RecordError):
        return
    where = os.fspath(record_set)
    if isinstance(err, UnidentifiedImageError | OSError):
        raise ImageError(
            f"{name} in {where} cannot be decoded: {reason(err)}. Its raw data cannot be decoded, either.",
            path=where,
            name=str(name),
        ) from err
    err.add_note(f"while decoding {name} in {where}")


def reason(err: Exception) -> str:
    """Return the reason why Pillow could not decode an image, without a full stop."""
    # Pillow's message contains the useless address of the BytesIO.
    return "it is no image that Pillow knows" if isinstance(err, UnidentifiedImageError) else str(err).rstrip(".")


def open_picture(reader: RecordReader, position: int, field: str = "image") -> Image.Image:
    """Return a stored image in its own mode. An encoded image is opened, not decoded.

    Raises:
        KeyError, IndexError, LookupError, CorruptRecordError: As `RecordReader.read`.
        ImageError: Pillow cannot open it, or the field has no images.
    """
    with naming(reader.path, RecordName(reader, position)):
        if reader.manifest.blobs[field].encoding == "raw":
            return from_pixels(reader.decoded(field, position))
        image = open_image(reader.read(field, position))
        return turned(image, orientation_of(reader, position)) if field == "image" else image


ORIENTATION = "exif_orientation"
"""The array of a set whose images are turned when they are read: EXIF's number for each, 1 for as it is stored."""
_TURNED = (SetKind.ANNOTATED, SetKind.COMBINED)

_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def orientation_of(reader: RecordReader, position: int) -> int:
    """Return the EXIF orientation by which the image at a position is turned when it is read; 1: not at all.

    Only images with annotations are turned: a field of this name in other record sets is the user's.
    """
    manifest = reader.manifest
    is_turned = manifest.kind in _TURNED and ORIENTATION in manifest.arrays
    return int(reader.array(ORIENTATION)[position]) if is_turned else 1


def turned(image: Image.Image, orientation: int) -> Image.Image:
    """Turn an image upright, as ``PIL.ImageOps.exif_transpose`` does; the same object if it is."""
    return image if orientation not in _TURNS else image.transpose(_TURNS[orientation])


def is_pixels(dtype: str, shape: tuple[int, ...] | None) -> bool:
    """Whether raw values are pixels: uint8 [H, W] or [H, W, C] with 1, 3 or 4 channels."""
    return dtype == "|u1" and (shape is None or (len(shape) in (2, 3) and tuple(shape[2:]) in _CHANNELS))


def image_problem(reader: RecordReader) -> str:
    """Say why the values of "image" are no images or pixels; "" if they are. The answer is kept for each reader."""
    blob = reader.manifest.blobs["image"]
    if blob.encoding != "raw":
        return "" if blob.encoding == "image" else f"its images are stored as {blob.encoding}"
    are_pixels = is_pixels(blob.dtype, blob.shape) and (blob.shape is not None or _have_channels(reader))
    return "" if are_pixels else "its images are stored as numbers that are no pixels"


_channels: "weakref.WeakKeyDictionary[RecordReader, bool]" = weakref.WeakKeyDictionary()


def _have_channels(reader: RecordReader) -> bool:
    """Whether all raw values are [H, W] or [H, W, C] with C 1, 3 or 4."""
    found = _channels.get(reader)
    if found is None:
        shapes = reader.array("image.shape")
        found = shapes.shape[1] == 2 or (
            shapes.shape[1] == 3
            and all(
                bool(np.isin(shapes[start : start + _LOOKED_AT_ONCE, 2], (1, 3, 4)).all())
                for start in range(0, len(shapes), _LOOKED_AT_ONCE)
            )
        )
        _channels[reader] = found
    return found


def from_pixels(pixels: "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]") -> Image.Image:
    """Return an image of raw pixels.

    Raises:
        OSError: The array has another type or shape.
    """
    if 0 in pixels.shape:  # also what a variant stores for a broken image
        raise OSError("it has no pixels")
    if not is_pixels(pixels.dtype.str, pixels.shape):
        raise OSError(f"an array {pixels.dtype}{list(pixels.shape)} is no image: uint8 [H, W] or [H, W, C] is one")
    return Image.fromarray(pixels[..., 0] if pixels.shape[2:] == (1,) else pixels)


def picture_field(reader: RecordReader) -> str:
    """Return the blob field that holds images: "image", or else the first one.

    Raises:
        ArgumentError: There is none.
    """
    blobs = reader.manifest.blobs
    fitting = [
        name
        for name, spec in blobs.items()
        if spec.encoding == "image" or (spec.encoding == "raw" and is_pixels(spec.dtype, spec.shape))
    ]
    if not fitting:
        fields = ", ".join(f"{name} ({spec.encoding})" for name, spec in blobs.items()) or "none"
        raise ArgumentError(f"{reader.path} holds no images; its blob fields are: {fields}.", path=str(reader.path))
    return "image" if "image" in fitting else fitting[0]


def with_value(reader: RecordReader, field: str, positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions that have a value in a blob field."""
    found: NDArray[np.int64] = positions[reader.array(f"{field}.index")["shard"][positions] != NO_SHARD]
    return found


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
        try:
            masks = [_rasterized(shape, height, width) for shape in shapes]
        except (TypeError, ValueError, KeyError, IndexError) as err:
            raise self._wrong(self.annotations, position) from err
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


_NUM_OF_TRIANGLE = 6


def _rasterized(shape: Any, height: int, width: int) -> NDArray[np.uint8]:
    from pycocotools import mask

    if isinstance(shape, list):  # pycocotools takes four numbers for a box
        shape = [polygon for polygon in shape if np.size(polygon) >= _NUM_OF_TRIANGLE]
    if not shape:
        return np.zeros((height, width), np.uint8)
    if isinstance(shape, list):
        shape = mask.merge(mask.frPyObjects(shape, height, width))
    elif not isinstance(shape["counts"], str):
        shape = mask.frPyObjects(shape, height, width)
    decoded: NDArray[np.uint8] = mask.decode(shape)
    return decoded


try:
    import simplejpeg
except ImportError:  # no wheel for this machine, or not installed
    simplejpeg = None


class ArrayFrame:
    """An image in RGB, with the pixels of torchvision's loader: decoded already.

    Args:
        array: uint8 [H, W, 3].
        info: Returns what the file says beside the pixels, such as EXIF: `info` of the image of torchvision's loader.
    """

    def __init__(self, array: NDArray[np.uint8], info: Callable[[], dict[Any, Any]] = dict) -> None:
        self.array, self.info = array, info
        self.height, self.width = array.shape[:2]

    def pixels(self, box: Box | None = None, denominator: int = 1) -> NDArray[np.uint8]:
        """Return the pixels of a box, or of the whole image, uint8 [h, w, 3]; maybe a view.

        Args:
            box: A box inside the image, in its pixels.
            denominator: 1, 2, 4 or 8: decode at 1 / denominator of the size if the frame can, else at full size.
        """
        if box is None:
            return self.array
        left, top, width, height = box
        return self.array[top : top + height, left : left + width]


class JpegFrame:
    """A plain JPEG file; only the requested part is decoded, in any thread.

    Args:
        data: The file. It must be plain (see `recordzoo.recipes.recipe`), else the pixels of a part may be wrong.
        decompressor: A decompressor of this thread. It stays ready for this file until it reads another header.

    Raises:
        UnusualImage: The decoder does not support it.
    """

    def __init__(self, data: bytes, decompressor: Decompressor) -> None:
        self.data, self.decompressor = data, decompressor
        self.header = decompressor.header(data)
        self.width, self.height = self.header.width, self.header.height

    def pixels(self, box: Box | None = None, denominator: int = 1) -> NDArray[np.uint8]:
        """See `ArrayFrame`."""
        if box is None and denominator == 1 and simplejpeg is not None:
            return _decoded(self.data)
        try:
            ready = self.decompressor if self.decompressor.is_ready_for(self.data) else _decompressors.next()
            return ready.region(self.data, self.header, box, denominator)
        except UnusualImage:  # the decoder warned of damage; Pillow decides whether it is an error
            return ArrayFrame(np.asarray(decoded_rgb(self.data))).pixels(box)

    def info(self) -> dict[Any, Any]:
        """See `ArrayFrame`."""
        return open_image(self.data).info


Frame = ArrayFrame | JpegFrame


def open_encoded(data: bytes, *, is_plain: bool | None = None) -> Frame:
    """Open an encoded image. It is decoded at once unless it is a plain JPEG and libjpeg-turbo 3 is installed.

    Args:
        data: The file.
        is_plain: Whether it is a plain JPEG. Default: detected, in less than a tenth of the decoding time.

    Raises:
        OSError: Pillow cannot read it.
    """
    if is_plain is None:
        is_plain = is_plain_jpeg(data)
    if is_plain and library() is not None:
        try:
            frame = JpegFrame(data, _decompressors.next())
        except UnusualImage:
            pass
        else:
            # Pillow warns of larger images or refuses them.
            if Image.MAX_IMAGE_PIXELS is None or frame.width * frame.height <= Image.MAX_IMAGE_PIXELS:
                return frame
    if is_plain:
        return ArrayFrame(_decoded(data), lambda: open_image(data).info)
    return frame_of_picture(decoded_rgb(data))


def frame_of_picture(picture: Image.Image) -> Frame:
    """Return the frame of a decoded RGB image."""
    return ArrayFrame(np.asarray(picture), picture.info.copy)


def open_raw(pixels: NDArray[np.uint8]) -> Frame:
    """Open stored pixels: uint8 [H, W], or [H, W, C] with 1, 3 or 4 channels.

    Raises:
        OSError: The array has another type or shape, or no pixels: the original was broken.
    """
    if pixels.size and pixels.dtype == np.uint8 and pixels.ndim == 3 and pixels.shape[2] == 3:
        return ArrayFrame(pixels)
    return ArrayFrame(np.asarray(from_pixels(pixels).convert("RGB")))


def decoders() -> list[str]:
    """List the decoders of ordinary JPEGs, in the order of preference."""
    found = library()
    return [*([str(found)] if found else []), *(["simplejpeg"] if simplejpeg else []), "Pillow"]


OPENED_AT_ONCE = 16
"""Number of images that one thread can hold open; each needs its own decompressor."""


class _Decompressors(threading.local):
    """The decompressors of this thread, used in turn."""

    def __init__(self) -> None:
        self._made: list[Decompressor] = []
        self._turn = 0

    def next(self) -> Decompressor:
        """Return the least recently used one."""
        if len(self._made) < OPENED_AT_ONCE:
            self._made.append(Decompressor())
        self._turn = (self._turn + 1) % len(self._made)
        return self._made[self._turn]


_decompressors = _Decompressors()


def _decoded(data: bytes) -> NDArray[np.uint8]:
    """Decode a plain JPEG as a whole."""
    if simplejpeg is not None and _is_usual(data):
        try:
            pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(data, "RGB", fastdct=False, fastupsample=False)
        except ValueError:  # an error or a warning; Pillow decides which
            pass
        else:
            return pixels
    return np.asarray(decoded_rgb(data))


def _is_usual(data: bytes) -> bool:
    try:
        height, width, colors, _ = simplejpeg.decode_jpeg_header(data)
    except (KeyError, ValueError):  # KeyError: subsampled in a way for which it has no name
        return False
    limit = Image.MAX_IMAGE_PIXELS
    return colors in ("YCbCr", "Gray") and (limit is None or height * width <= limit)


class Deferred(Image.Image):
    """An RGB image whose size is known and whose pixels are not decoded yet.

    Attributes:
        frame: Decodes a part of the image; valid until the same thread has opened 16 more images.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.frame: Frame = open_encoded(data)
        self._data: bytes | None = data
        self._mode = "RGB"
        self._size = (self.frame.width, self.frame.height)

    @property
    def is_loaded(self) -> bool:
        """Whether the pixels were read, and so may have been changed."""
        return self._data is None

    def load(self):  # type: ignore[no-untyped-def]  # like Pillow's
        """Decode the pixels, as Pillow does."""
        if self._data is not None:
            data, self._data = self._data, None
            picture = decoded_rgb(data)
            self.im, self.info = picture.im, picture.info
        return super().load()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle as a plain image."""
        return _same, (self.copy(),)


def _same(image: Image.Image) -> Image.Image:
    return image


@contextlib.contextmanager
def deferring() -> Iterator[None]:
    """Let `decode_rgb` return `Deferred` images in this thread."""
    before = _is_deferring.set(True)
    try:
        yield
    finally:
        _is_deferring.reset(before)
