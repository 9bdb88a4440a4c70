"""Messages of TensorFlow: `tf.train.Example` and `SequenceExample`, as values of samples and back.

An `Example` maps keys to lists of bytes, floats or integers (tensorflow/core/example/{example,feature}.proto), a
`SequenceExample` besides to lists of such lists. Files of TensorFlow's Object Detection API have lists under
``image/object/...``: a value for each object.
"""

import base64
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from recordzoo.errors import OtherSourceError, SourceError
from recordzoo.formats.protobuf import Message, WireError, chunk, packed
from recordzoo.formats.samples import Field, Sample, text_of
from recordzoo.formats.writing import json_line
from recordzoo.recipes.images import sniffed_ending

_FEATURES, _SEQUENCES, _FEATURE, _KEY, _VALUE = 1, 2, 1, 1, 2
_BYTES, _FLOATS, _INTEGERS, _LIST = 1, 2, 3, 1
# Lists with a value for each object: object_detection/data_decoders/tf_example_decoder.py
_OBJECTS = re.compile(r"image/object/(\w+/\w+|\w*(difficult|truncated|area|crowd|group_of|view|weight))")


# Any, here and below: numbers of any dtype; values of all kinds.
class Steps(list[list[bytes] | NDArray[Any]]):
    """The values of each step of a sequence."""


Values = list[bytes] | NDArray[Any] | Steps
"""What there is under a key."""

Example = dict[str, Values]


@dataclass(frozen=True, slots=True)
class Feature:
    """What the first examples have under a key.

    Attributes:
        is_list: There are several values, or may be.
        is_uneven: They are numbers, not always as many.
        is_text: All are text in UTF-8 and no images.
        is_image: The first is an image.
    """

    is_list: bool
    is_uneven: bool
    is_text: bool
    is_image: bool

    def value(self, values: Values) -> Any:
        """Return a value of a sample: one, or several as an array or a list; None if there are none.

        Raises:
            UnicodeDecodeError: It is no text, and those of the first examples are.
        """
        if not len(values):
            return None
        if isinstance(values, Steps):
            return _stacked([self._several(step) for step in values])
        if len(values) > 1 or self.is_list:
            return self._several(values)
        if isinstance(values, np.ndarray):
            return values[0].item()
        return values[0].decode() if self.is_text and not self.is_image else values[0]

    def _several(self, values: Values) -> Any:
        """Return several values as they are stored: numbers as an array, text, other bytes in base64."""
        if isinstance(values, np.ndarray):
            return values
        found = cast(list[bytes], values)
        return [value.decode() if self.is_text else base64.b64encode(value).decode() for value in found]


def feature_of(key: str, values: Sequence[Values]) -> Feature:
    """Find out what there is under a key, from the values of the first examples that have some."""
    steps = [step for each in values for step in (each if isinstance(each, Steps) else (each,))]
    lengths = {len(each) for each in values}
    are_objects = _OBJECTS.fullmatch(key) is not None
    is_list = are_objects or max(lengths, default=1) > 1
    are_numbers = bool(steps) and all(isinstance(step, np.ndarray) for step in steps)
    is_sequence = any(isinstance(each, Steps) for each in values)
    is_uneven = is_list and are_numbers and not is_sequence and (are_objects or len(lengths) > 1)
    texts = [value for step in steps if not isinstance(step, np.ndarray) for value in step]
    is_image = bool(texts) and sniffed_ending(texts[0]) != ""
    return Feature(is_list, is_uneven, bool(texts) and all(map(_is_text, texts)), is_image)


def _stacked(steps: list[Any]) -> Any:
    """Return the steps of a sequence: as an array [T] or [T, n] if all have n numbers; otherwise as lists."""
    if all(isinstance(step, np.ndarray) for step in steps) and len({len(step) for step in steps}) == 1:
        whole = np.stack(steps)
        return whole[:, 0] if whole.shape[1] == 1 else whole
    lists = [step.tolist() if isinstance(step, np.ndarray) else step for step in steps]
    return [step[0] for step in lists] if all(len(step) == 1 for step in lists) else lists


def read_example(data: bytes, where: str) -> Example:
    """Read an `Example` or a `SequenceExample`.

    Raises:
        SourceError: It is none.
    """
    found: Example = {}
    try:
        message = Message(data)
        for features in message.all_bytes(_FEATURES):
            for key, value in _entries(features):
                found[key] = _feature(value)
        for sequences in message.all_bytes(_SEQUENCES) if _SEQUENCES in message else ():
            for key, value in _entries(sequences):
                found[key] = Steps(map(_feature, Message(value).all_bytes(_FEATURE)))
    except (WireError, UnicodeDecodeError) as err:
        raise SourceError(f"{where}: it is no tf.train.Example: {err}.") from err
    if not found:
        raise SourceError(f"{where}: it is no tf.train.Example with features.")
    return found


def _entries(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the keys and values of a map."""
    for entry in Message(data).all_bytes(_FEATURE):
        pair = Message(entry)
        yield (pair.bytes_of(_KEY) or b"").decode(), pair.bytes_of(_VALUE) or b""


def _feature(data: bytes) -> list[bytes] | NDArray[Any]:
    feature = Message(data)
    for kind in feature.numbers & {_BYTES, _FLOATS, _INTEGERS}:
        inner = Message(feature.bytes_of(kind) or b"")
        if kind == _BYTES:
            return list(inner.all_bytes(_LIST))
        return inner.floats(_LIST) if kind == _FLOATS else np.array(inner.integers(_LIST), np.int64)
    return []


def _is_text(value: bytes) -> bool:
    if sniffed_ending(value):
        return False
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def written_example(features: Iterator[tuple[str, bytes]]) -> bytes:
    """Write an `Example` of keys and features."""
    pairs = (chunk(_KEY, key.encode()) + chunk(_VALUE, value) for key, value in sorted(features))
    return chunk(_FEATURES, b"".join(chunk(_FEATURE, pair) for pair in pairs))


def features_of_field(field: Field, sample: Sample) -> Iterator[tuple[str, bytes]]:
    """Yield the features of a field. An `Example` has lists only: arrays get their shape beside them.

    Raises:
        OtherSourceError: It holds numbers beyond 64 bits with a sign, or text that is none.
    """
    value = sample.fields[field.name]
    if value is None:
        yield field.name, b""
    elif field.kind in ("image", "bytes"):
        yield field.name, bytes_feature(value)
    elif field.kind == "json":
        text = text_of(field, sample).encode() if isinstance(value, str) else json_line(value)[:-1]
        yield field.name, bytes_feature(text)
    else:
        numbers = np.asarray(value)
        if numbers.dtype.kind == "f":
            yield field.name, chunk(_FLOATS, chunk(_LIST, numbers.astype("<f4").tobytes()))
        elif numbers.dtype == np.uint64 and numbers.size and int(numbers.max()) >= 1 << 63:
            raise OtherSourceError(
                f"{sample.name}: {field.name} holds {numbers.max()}; TFRecord has whole numbers up to 2^63 - 1. Export "
                "to webdataset or parquet."
            )
        else:
            yield field.name, integers_feature(numbers.astype(np.int64).ravel().tolist())
        if numbers.ndim > 1:
            yield f"{field.name}/shape", integers_feature(list(numbers.shape))


def bytes_feature(value: bytes) -> bytes:
    """Write a feature of one value."""
    return chunk(_BYTES, chunk(_LIST, value))


def integers_feature(values: list[int]) -> bytes:
    """Write a feature of whole numbers."""
    return chunk(_INTEGERS, chunk(_LIST, packed(values)))
