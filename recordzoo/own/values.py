"""Values of samples as they are stored: numbers as arrays, images as files without loss, the rest as JSON.

How the values of a field are stored is chosen from some of them. Arrays stay arrays of their dtype: a field's arrays
have one dtype and one number of dimensions, any shapes, and None where a sample has no value. Only numbers, text, lists
and what is nested become JSON.
"""

import hashlib
import io
import json
import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import numpy as np
import PIL
from numpy.typing import NDArray
from PIL import Image

from recordzoo.errors import SampleError
from recordzoo.formats.base import field_name
from recordzoo.recipes.recipe import PNG_LEVEL, BlobField, look, sniffed_ending
from recordzoo.records.manifest import MAX_DIMENSIONS
from recordzoo.records.shard import stored_bytes

_CHANNELS = (1, 3, 4)
_RAW_MODES = ("L", "RGB", "RGBA")
_PREDICTOR = 317  # a TIFF tag; 2: differences of neighbours are compressed

# Any: what Pillow's save takes.
_Encoding = tuple[str, dict[str, Any]]
_PNG: _Encoding = ("png", {"compress_level": PNG_LEVEL})
_TIFF: _Encoding = ("tiff", {"compression": "raw"})  # an image from a TIFF of JPEGs would become one again
_PACKED_TIFF: _Encoding = ("tiff", {"compression": "tiff_adobe_deflate", "tiffinfo": {_PREDICTOR: 2}})

ENCODINGS: dict[str, tuple[_Encoding, ...]] = {
    **dict.fromkeys((*_RAW_MODES, "1", "LA", "P"), (_PNG,)),
    **dict.fromkeys(("CMYK", "F", "I", "I;16B", "LAB", "PA", "YCbCr"), (_TIFF,)),
    "I;16": (_PACKED_TIFF, _TIFF),  # a PNG comes back as mode I before Pillow 10.3
}
"""How images of each mode are stored: the first encoding from which an image comes back identical.

Pillow 10.1, 10.3, 11.3, 12.2 and 13.0 read all of them alike, whichever of them wrote them, but for YCbCr: before 13
such a TIFF is written and cannot be read, so there the mode is refused. IM keeps it, but will be gone in Pillow 15.
"""


# Any, here and below: a value is whatever a dataset gives.
def as_array(value: Any) -> NDArray[Any] | None:
    """Return numbers, an array or a tensor as a little-endian array; None for anything else.

    A dtype that the format has not (complex, strings, objects, long double), or a mask, makes it anything else.
    """
    if isinstance(value, bool | float):
        return np.asarray(value)
    if isinstance(value, int):
        return np.asarray(value, np.int64) if -(1 << 63) <= value < 1 << 63 else None
    if _is_tensor(value):
        try:
            value = value.detach().cpu().numpy()
        except (TypeError, RuntimeError):  # bfloat16, sparse, quantized
            return None
    if not isinstance(value, np.ndarray | np.generic) or isinstance(value, np.ma.MaskedArray):
        return None
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        return None
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def as_pixels(value: Any) -> NDArray[np.uint8] | None:
    """Return uint8 pixels [H, W] or [H, W, C] of an image, an array or a tensor ([C, H, W]); None for anything else."""
    if isinstance(value, Image.Image):
        return np.asarray(value) if value.mode in _RAW_MODES else None
    array = as_array(value)
    if array is None or array.dtype != np.uint8 or array.ndim not in (2, 3) or 0 in array.shape:
        return None
    if array.ndim == 2 or (array.shape[2] in _CHANNELS and not _is_tensor(value)):
        return array
    if _is_tensor(value) and array.shape[0] in _CHANNELS:
        return np.moveaxis(array, 0, 2)
    return None


def is_picture(value: Any) -> bool:
    """Whether a value is an image: Pillow's, or uint8 pixels."""
    return isinstance(value, Image.Image) or as_pixels(value) is not None


def picture_bytes(value: Any) -> tuple[bytes, str]:
    """Encode an image losslessly; also return its file's ending.

    Raises:
        SampleError: No format keeps its mode and pixels.
    """
    image = value
    if not isinstance(value, Image.Image):
        pixels = np.ascontiguousarray(cast(NDArray[np.uint8], as_pixels(value)))
        image = Image.fromarray(pixels[..., 0] if pixels.shape[2:] == (1,) else pixels)
    if image.mode == "P":
        image = _with_all_colours(image)
    return encode_exactly(image, ENCODINGS.get(image.mode, ()))


def encode_exactly(image: Image.Image, encodings: Sequence[_Encoding]) -> tuple[bytes, str]:
    """Encode an image in the first of some ways from which it comes back as it was; also return its file's ending.

    Args:
        image: The image.
        encodings: Names of formats and options for Pillow's ``save``.

    Raises:
        SampleError: There is none.
    """
    for kind, options in encodings:
        buffer = io.BytesIO()
        try:
            image.save(buffer, kind, **options)
            if _is_kept(image, buffer):
                return buffer.getvalue(), f".{kind}"
        except (OSError, ValueError, KeyError):  # an encoder or decoder that this Pillow does not have
            continue
    raise SampleError(
        f"an image of mode {image.mode}, which no lossless format of Pillow {PIL.__version__} keeps; convert() it first"
    )


def _is_kept(image: Image.Image, file: io.BytesIO) -> bool:
    with Image.open(file) as found:
        if (found.mode, found.size) != (image.mode, image.size) or found.tobytes() != image.tobytes():
            return False
        return image.mode not in ("P", "PA") or found.convert("RGBA").tobytes() == image.convert("RGBA").tobytes()


def _with_all_colours(image: Image.Image) -> Image.Image:
    """Return a palette image whose palette has all colours: Pillow drops the bits of pixels that have none."""
    mode = image.palette.mode if image.palette is not None else "RGB"
    palette = image.getpalette(mode) or []
    missing = (int(np.asarray(image).max()) + 1) * len(mode) - len(palette)
    if missing > 0:
        image = image.copy()
        image.putpalette([*palette, *[0] * missing], mode)
    return image


def json_bytes(value: Any) -> bytes:
    """Encode a value as JSON; arrays and tensors become lists, tuples too.

    Raises:
        SampleError: It holds something that JSON cannot express; the message says where.
    """
    try:
        text = json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))
    except (RecursionError, ValueError) as err:  # a list in itself, a number of 5,000 digits
        raise SampleError(f"a {describe(value)} that JSON cannot hold ({err})") from None
    return text.encode("utf-8", "surrogatepass")


def is_json(value: Any) -> bool:
    """Whether `json_bytes` takes a value."""
    try:
        json_bytes(value)
    except SampleError:
        return False
    return True


def update(digest: "hashlib._Hash", value: Any) -> None:
    """Add a value to a digest: its type, its numbers, its pixels.

    Raises:
        SampleError: It cannot be stored.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        digest.update(b"b" + len(value).to_bytes(8, "little") + bytes(value))
    elif isinstance(value, Image.Image):
        digest.update(f"i{value.mode}{value.size}".encode() + value.tobytes())
    elif (array := as_array(value)) is not None:
        digest.update(f"a{array.dtype.str}{array.shape}".encode() + array.tobytes())
    elif isinstance(value, dict | list | tuple):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        digest.update(f"c{len(value)}".encode())
        for key, item in items:
            digest.update(repr(key).encode("utf-8", "surrogatepass"))
            update(digest, item)
    else:
        digest.update(b"j" + json_bytes(value))


def describe(value: Any) -> str:
    """Describe a value for a message: its type, and the dtype and shape of numbers."""
    name = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{name} ({value.dtype} {list(value.shape)})"
    return f"{name} (mode {value.mode})" if isinstance(value, Image.Image) else name


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "detach") and hasattr(value, "numpy") and type(value).__module__.partition(".")[0] != "numpy"


def _plain(value: Any, keys: tuple[Any, ...] = ()) -> Any:
    """Return a value as what `json` writes.

    Args:
        value: The value.
        keys: Where it is in the value that is encoded.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _no_json(f"{value}, which JSON has not", keys)
        return value
    if isinstance(value, dict):
        odd = next((key for key in value if not isinstance(key, str)), None)
        if odd is not None:
            raise _no_json(f"a dict with the key {odd!r}, a {describe(odd)}; JSON's keys are strings", keys)
        return {key: _plain(item, (*keys, key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, (*keys, number)) for number, item in enumerate(value)]
    array = as_array(value)
    if array is None:
        raise _no_json(f"a {describe(value)}", keys)
    return _plain(array.tolist(), keys)


def _no_json(text: str, keys: tuple[Any, ...]) -> SampleError:
    place = "".join(f"[{key!r}]" for key in keys)
    return SampleError(f"{text}, at {place}" if place else text)


class at_position:
    """Context manager: put the position of a sample in front of an error's message.

    Args:
        position: The position; -1 if that is not known here.
        of: What it counts in, if that is a part of the samples only.
    """

    def __init__(self, position: int, of: str = "") -> None:
        self.position, self._of = position, f" {of}" if of else ""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, trace: object) -> None:
        if isinstance(err, SampleError) and "position" not in err.details and self.position >= 0:
            text = f"position {self.position}{self._of}: {str(err).rstrip('.')}."
            raise type(err)(text, **err.details, position=self.position) from None


Kind = Literal["image", "bytes", "picture", "pixels", "raw", "array", "json"]
"""How a field is stored: "image" and "bytes" untouched; "picture" as PNG; "pixels" and "raw" as raw numbers; "array" as
a row of an array file; "json"."""

Parts = tuple[str, ...] | dict[str, str]
"""The fields of a tuple's items, or of a dict's values by key."""

ROW_BYTES = 1024
"""An array up to this size is a row of an array file: a million of them are in memory while they are put together."""

PATH_HINT = "; of a file, give the bytes: Path(...).read_bytes()"

_PAGE_BYTES = 4096
"""A picture up to this size takes a page of a shard, or less, however it is stored."""

_ENCODINGS = {"image": "image", "bytes": "bytes", "picture": "image", "pixels": "raw", "raw": "raw"}


class UnevenError(SampleError):
    """A field's value is not like those before it, and all of them can be stored in another way.

    ``field`` names the item of the sample; ``plans`` say how it, or a part of it, can be stored. ``parts`` is given if
    the item's parts change.
    """


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """How one field is stored; of numbers also their dtype, and the shape of a row or the number of dimensions.

    Attributes:
        kind: As `Kind` has it; "none" while all samples have None.
        is_tensor: The dataset gives tensors.
        dimensions: The number of dimensions, if images come as arrays or tensors; 0 for PIL images.
    """

    name: str
    kind: Kind | Literal["none"]
    dtype: str = ""
    shape: tuple[int, ...] = ()
    is_tensor: bool = False
    dimensions: int = 0

    @property
    def blob_field(self) -> BlobField | None:
        """How the record set stores the field's values; None for rows of an array."""
        if self.kind == "array":
            return None
        return BlobField(_ENCODINGS.get(self.kind, "json"), None, "|u1" if self.kind == "pixels" else self.dtype)


@dataclass
class Encoded:
    """A sample as it is stored.

    Attributes:
        blobs: Field, bytes, ending of an image's file.
        row: For each array field its value, and for each raw field, as ``<field>.shape``, the shape.
    """

    blobs: list[tuple[FieldPlan, bytes, str]] = field(default_factory=list)
    row: dict[str, NDArray[Any]] = field(default_factory=dict)  # Any: numbers of any dtype

    @property
    def size_bytes(self) -> int:
        """The bytes of all of it."""
        return sum(len(data) for _, data, _ in self.blobs) + sum(array.nbytes for array in self.row.values())

    # Any, here and below: values are whatever a dataset gives.
    def add(self, plan: FieldPlan, value: Any, of: str = "") -> None:
        """Add the value of a field.

        Args:
            plan: How the field is stored.
            value: The value; None: there is none.
            of: The item of the sample that the field is a part of.

        Raises:
            UnevenError: The value needs another plan.
            SampleError: The value cannot be stored.
        """
        if value is None and plan.kind != "array":
            if plan.kind in ("raw", "pixels"):
                self.row[f"{plan.name}.shape"] = np.zeros(len(plan.shape), np.uint32)
        elif plan.kind in ("image", "bytes"):
            if not isinstance(value, bytes | bytearray | memoryview):
                raise _wrong(plan, value, "bytes")
            data = bytes(value)
            self.blobs.append((plan, data, sniffed_ending(data) if plan.kind == "image" else ""))
        elif plan.kind == "picture" and is_picture(value):
            self.blobs.append((plan, *picture_bytes(value)))
        elif plan.kind == "json":
            try:
                self.blobs.append((plan, json_bytes(value), ""))
            except SampleError as err:
                raise SampleError(f"{plan.name!r} holds {err}") from None
        else:
            self._add_numbers(plan, value, of or plan.name)

    def _add_numbers(self, plan: FieldPlan, value: Any, key: str) -> None:
        array = as_pixels(value) if plan.kind == "pixels" else as_array(value)
        if plan.kind in ("picture", "pixels") and (array is None or plan.kind == "picture"):
            raise _no_picture(plan, value, key)
        if plan.kind == "array":
            if array is None or array.dtype.str != plan.dtype or array.shape != plan.shape:
                raise _uneven(plan, value, array, key)
            self.row[plan.name] = array.copy()  # the caller may reuse the array for the next sample
        elif array is None or (array.dtype.str, array.ndim) != (plan.dtype, len(plan.shape)):
            if plan.kind == "pixels" and is_picture(value):
                raise _no_picture(plan, value, key)
            raise _wrong(plan, value, f"{np.dtype(plan.dtype)} numbers of {len(plan.shape)} dimensions")
        else:
            self.blobs.append((plan, np.ascontiguousarray(array).tobytes(), ""))
            self.row[f"{plan.name}.shape"] = np.array(array.shape, np.uint32)


def _no_picture(plan: FieldPlan, value: Any, key: str) -> SampleError:
    """Return the error for a value that a field of pictures cannot store; PNG or arrays can store all of them."""
    array, text = as_array(value), f"{key!r} holds images of several kinds"
    if is_picture(value):
        return UnevenError(text, field=key, plans=[FieldPlan(plan.name, "picture")], worthless=True)
    if array is None or array.dtype != np.uint8 or array.ndim != plan.dimensions:
        return _wrong(plan, value, "an image")
    raw = FieldPlan(plan.name, "raw", "|u1", (0,) * array.ndim, plan.is_tensor)
    return UnevenError(f"{key!r} holds a {describe(value)}, no image", field=key, plans=[raw], worthless=True)


def _uneven(plan: FieldPlan, value: Any, array: NDArray[Any] | None, key: str) -> SampleError:
    """Return the error for a value that is no row of an array: other shapes stay arrays, numbers become JSON."""
    text = f"{key!r} holds a {describe(value)}, not {np.dtype(plan.dtype)} {list(plan.shape) or ''}".rstrip()
    if value is None or (array is not None and (array.dtype.str, array.ndim) == (plan.dtype, len(plan.shape))):
        new = _with_gaps(plan)
    elif not is_json(value) or (array is not None and plan.shape):
        return SampleError(text if array is None else f"{text}. {_ONE_DTYPE}")
    else:
        new = FieldPlan(plan.name, "json")
    parts = {"parts": None} if new.kind == "json" and new.name != key else {}
    plans = [FieldPlan(key, "json") if parts else new]
    return UnevenError(text, field=key, plans=plans, worthless=True, **parts)


_ONE_DTYPE = 'The arrays of a field have one dtype and one number of dimensions; kinds={FIELD: "json"} stores lists'


def _with_gaps(plan: FieldPlan) -> FieldPlan:
    """Return a plan that keeps arrays of other shapes, and None: whole numbers become JSON, others stay arrays."""
    if not plan.shape and np.dtype(plan.dtype).kind != "f" and not plan.is_tensor:
        return FieldPlan(plan.name, "json")
    return FieldPlan(plan.name, "raw", plan.dtype, (0,) * len(plan.shape), plan.is_tensor)


def _wrong(plan: FieldPlan, value: Any, expected: str) -> SampleError:
    return SampleError(f"{plan.name!r} holds a {describe(value)}, not {expected}")


def choose_all(
    name: str, values: Mapping[int, Any], *, kinds: Mapping[str, Kind], taken: Collection[str], is_first: bool = False
) -> tuple[Parts | None, list[FieldPlan]]:
    """Choose how an item of the samples is stored, from its values by position: as one field, or each of its parts.

    Args:
        name: What the item is called.
        values: At least one value.
        kinds: How fields are stored, for the fields that the user names.
        taken: The names of other fields.
        is_first: The item is the first one of the samples: small arrays are no rows.

    Returns:
        The fields of its parts, None if it is one field; how each field is stored.

    Raises:
        SampleError: A value cannot be stored; the message has its position.
    """
    parts = None if name in kinds else _parts(name, values, taken)
    if parts is None:
        return None, [choose(name, values, is_first=is_first, kind=kinds.get(name))]
    plans = []
    for key, part in parts.items() if isinstance(parts, dict) else enumerate(parts):
        column = {position: part_of(value, key) for position, value in values.items()}
        in_dict = isinstance(parts, dict)
        plans.append(choose(part, column, is_first=is_first, kind=kinds.get(part), in_dict=in_dict))
    return parts, plans


def part_of(value: Any, key: Any) -> Any:
    """Return an item of a dict or tuple; None if it has no such item."""
    return value.get(key) if isinstance(value, Mapping) else None if value is None else value[key]


def _parts(name: str, values: Mapping[int, Any], taken: Collection[str]) -> Parts | None:
    """Return the fields of a dict with arrays, or of a tuple that always has as many numbers and arrays."""
    there = [value for value in values.values() if value is not None]
    if there and all(isinstance(value, Mapping) for value in there):
        items = [item for value in there for item in value.items()]
        if any(_is_array(each) for _, each in items) and all(isinstance(key, str) for key, _ in items):
            return name_parts(name, dict.fromkeys(key for key, _ in items), taken)
    lengths = {len(value) if isinstance(value, tuple) else 0 for value in there}
    if len(lengths) != 1 or lengths == {0}:
        return None
    columns = [[as_array(part) for part in column] for column in zip(*there, strict=True)]
    are_arrays = any(each is not None and each.ndim for column in columns for each in column)
    dtypes = [{None if each is None else each.dtype.str for each in column} for column in columns]
    is_even = len(there) == len(values) and all(len(each) == 1 and None not in each for each in dtypes)
    return tuple(f"{name}_{i}" for i in range(len(columns))) if are_arrays or is_even else None


def name_parts(name: str, keys: Collection[str], taken: Collection[str]) -> dict[str, str]:
    """Return a field for each key: the key, or after the item's name if another field is called so."""
    found: dict[str, str] = {}
    for key in keys:
        plain = field_name(key)
        found[key] = f"{name}_{plain}" if plain in taken or plain in found.values() else plain
    return found


def _is_array(value: Any) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "shape") and as_array(value) is not None


def choose(
    name: str, values: Mapping[int, Any], *, is_first: bool = False, kind: Kind | None = None, in_dict: bool = False
) -> FieldPlan:
    """Choose how one field is stored; `in_dict`: its arrays have shapes of their own and are no images."""
    there = {position: value for position, value in values.items() if value is not None}
    if not there:
        return FieldPlan(name, "json" if kind == "json" else "none")
    is_asked, has_gaps = kind is not None, len(there) < len(values)
    position, value = next(iter(there.items()))
    with at_position(position):
        first = kind or _kind(name, value, is_first=is_first, in_dict=in_dict)
    chosen = first if is_asked else _even(name, there, first, has_gaps=has_gaps, in_dict=in_dict)
    is_tensor = hasattr(value, "detach")
    given = as_array(value) if chosen in ("picture", "pixels") else None
    plan = FieldPlan(name, chosen, "", (), is_tensor, 0 if given is None else given.ndim)
    if chosen in ("array", "raw", "pixels"):
        array = as_pixels(value) if chosen == "pixels" else as_array(value)
        if array is None:
            raise SampleError(f"position {position}: {name!r} is a {describe(value)}; it cannot be stored as {chosen}.")
        plan = FieldPlan(name, chosen, array.dtype.str, array.shape, is_tensor, plan.dimensions)
    for position, value in values.items():
        with at_position(position):
            try:
                Encoded().add(plan, value)
            except UnevenError as err:
                if is_asked:
                    raise SampleError(f"{err}; kinds asks for {kind!r}") from None
                (new,) = err.details["plans"]
                return FieldPlan(name, new.kind, new.dtype, new.shape, is_tensor, plan.dimensions)
    return plan


def _kind(name: str, value: Any, *, is_first: bool, in_dict: bool) -> Kind:
    """Choose from one value."""
    if isinstance(value, bytes | bytearray | memoryview):
        return "image" if look(bytes(value)).problem is None or name == "image" else "bytes"
    array = as_array(value)
    small = array is not None and ((array.nbytes <= ROW_BYTES and not is_first) or in_dict)
    if is_picture(value) and not small:
        return "picture"
    if array is not None and array.ndim <= MAX_DIMENSIONS:
        return "array" if array.ndim == 0 or small else "raw"
    try:
        json_bytes(value)
    except SampleError as err:
        inside = f" ({err})" if isinstance(value, dict | list | tuple) else ""
        hint = PATH_HINT if isinstance(value, os.PathLike) else inside
        raise SampleError(f"{name!r} is a {describe(value)}: neither an image nor numbers nor JSON{hint}") from None
    return "json"


def _even(name: str, there: Mapping[int, Any], kind: Kind, *, has_gaps: bool, in_dict: bool) -> Kind:
    """Choose from all values, after the first one's kind.

    Raises:
        SampleError: Some arrays have another dtype or number of dimensions than the first.
    """
    if kind in ("image", "bytes"):
        return kind
    if kind == "picture" and all(map(is_picture, there.values())):
        return "pixels" if _is_smaller_raw(list(there.values())) else kind
    arrays = {position: as_array(value) for position, value in there.items()}
    if any(each is None for each in arrays.values()):
        return "json" if kind == "array" else kind
    looks = {position: (each.dtype.str, each.ndim) for position, each in arrays.items() if each is not None}
    first, expected = next(iter(looks.items()))
    if {dimensions for _, dimensions in looks.values()} == {0}:
        if len(set(looks.values())) > 1:
            return "json"
        is_tensor = hasattr(there[first], "detach")
        return "array" if not has_gaps else "raw" if "f" in expected[0] or is_tensor else "json"
    for position, each in looks.items():
        if each != expected:
            raise SampleError(
                f"position {position}: {name!r} holds a {describe(there[position])}, and at position {first} a "
                f"{describe(there[first])}. {_ONE_DTYPE}.",
                position=position,
            )
    shapes = {each.shape for each in arrays.values() if each is not None}
    return "array" if kind == "array" and len(shapes) == 1 and not has_gaps and not in_dict else "raw"


def _is_smaller_raw(values: Sequence[Any]) -> bool:
    """Whether images of one shape are no larger as raw pixels: a page of a shard holds one, or PNG gains nothing."""
    pixels = [as_pixels(value) for value in values]
    if len({None if each is None else each.shape for each in pixels}) != 1 or pixels[0] is None:
        return False
    if pixels[0].nbytes <= _PAGE_BYTES:
        return True
    return stored_bytes(pixels[0].nbytes) * len(values) <= sum(
        stored_bytes(len(picture_bytes(value)[0])) for value in values
    )
