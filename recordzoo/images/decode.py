"""Decode stored images: bytes to what torchvision's own loader returns for the file, and raw pixels."""

import os
import threading
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from recordzoo.errors import ArgumentError, ImageError, RecordError
from recordzoo.recipes.images import open_image
from recordzoo.records.manifest import NO_SHARD
from recordzoo.records.reader import RecordReader

_CHANNELS = ((), (1,), (3,), (4,))


class _Instead(threading.local):
    """This thread's replacement for decoding an image; see `recordzoo.images.frames.deferring`."""

    make: Callable[[bytes], Image.Image] | None = None


instead = _Instead()


def decode_rgb(data: bytes) -> Image.Image:
    """Decode an encoded image to RGB, as `torchvision.datasets.folder.pil_loader` does."""
    return decoded_rgb(data) if instead.make is None else instead.make(data)


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
            f"{name} in {where} cannot be decoded: {reason(err)}. It is stored as the raw data has it.",
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
        return open_image(reader.read(field, position))


def is_pixels(dtype: str, shape: tuple[int, ...] | None) -> bool:
    """Whether raw values are pixels: uint8 [H, W] or [H, W, C] with 1, 3 or 4 channels."""
    return dtype == "|u1" and (shape is None or (len(shape) in (2, 3) and tuple(shape[2:]) in _CHANNELS))


def from_pixels(pixels: "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]") -> Image.Image:
    """Return an image of raw pixels.

    Raises:
        OSError: The array has another type or shape.
    """
    if not is_pixels(pixels.dtype.str, pixels.shape) or 0 in pixels.shape:
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
