"""Messages of TensorFlow: `tf.train.Example` and `SequenceExample`, as values of samples.

An `Example` maps keys to lists of bytes, floats or integers (tensorflow/core/example/{example,feature}.proto), a
`SequenceExample` besides to lists of such lists. Files of TensorFlow's Object Detection API have lists under
``image/object/...``: a value for each object.
"""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from recordzoo.errors import SourceError
from recordzoo.formats.protobuf import parsed
from recordzoo.recipes.images import sniffed_ending

# Lists with a value for each object: object_detection/data_decoders/tf_example_decoder.py
_OBJECTS = re.compile(r"image/object/(\w+/\w+|\w*(difficult|truncated|area|crowd|group_of|view|weight))")


# Any, here and below: numbers of any dtype; values of all kinds.
class Steps(list[list[bytes] | NDArray[Any]]):
    """The values of each step of a sequence."""


Values = list[bytes] | NDArray[Any] | Steps
"""The values of a key."""

Example = dict[str, Values]


@dataclass(frozen=True, slots=True)
class Feature:
    """The type of a key's values in the first examples.

    Attributes:
        is_list: There may be several values.
        is_text: All are text in UTF-8 and no images.
        is_image: The first is an image.
    """

    is_list: bool
    is_text: bool
    is_image: bool

    def value(self, values: Values) -> Any:
        """Return a value of a sample: one, or several as an array or a list; None if there are none.

        Raises:
            UnicodeDecodeError: It is not text, although the first examples are.
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
        """Return a list of values for storage: numbers as an array, text, other bytes in base64."""
        if isinstance(values, np.ndarray):
            return values
        found = cast(list[bytes], values)
        return [value.decode() if self.is_text else base64.b64encode(value).decode() for value in found]


def feature_of(key: str, values: Sequence[Values]) -> Feature:
    """Determine the type of a key's values from the first examples that have some."""
    steps = [step for each in values for step in (each if isinstance(each, Steps) else (each,))]
    is_list = _OBJECTS.fullmatch(key) is not None or max(map(len, values), default=1) > 1
    texts = [value for step in steps if not isinstance(step, np.ndarray) for value in step]
    is_image = bool(texts) and sniffed_ending(texts[0]) != ""
    return Feature(is_list, bool(texts) and all(map(_is_text, texts)), is_image)


def _stacked(steps: list[Any]) -> Any:
    """Return the steps of a sequence: as an array [T] or [T, n] if all have n numbers; otherwise as lists."""
    if all(isinstance(step, np.ndarray) for step in steps) and len({len(step) for step in steps}) == 1:
        whole = np.stack(steps)
        return whole[:, 0] if whole.shape[1] == 1 else whole
    lists = [step.tolist() if isinstance(step, np.ndarray) else step for step in steps]
    return [step[0] for step in lists] if all(len(step) == 1 for step in lists) else lists


def read_example(data: bytes, where: str) -> Example:
    """Read an `Example` or a `SequenceExample`."""
    found: Example = {}
    try:
        message = parsed("Example", data)
        for entry in message.features.feature:
            found[entry.key.decode()] = _feature(entry.value)
        for entry in message.sequences.feature_list:
            found[entry.key.decode()] = Steps(map(_feature, entry.value.feature))
    except ValueError as err:
        raise SourceError(f"{where}: it is no tf.train.Example: {err}.") from err
    if not found:
        raise SourceError(f"{where}: it is no tf.train.Example with features.")
    return found


def _feature(feature: Any) -> list[bytes] | NDArray[Any]:
    if feature.HasField("floats"):
        return np.array(feature.floats.value, np.float32)
    return np.array(feature.integers.value, np.int64) if feature.HasField("integers") else list(feature.texts.value)


def _is_text(value: bytes) -> bool:
    if sniffed_ending(value):
        return False
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


SHAPE, DTYPE = "/shape", "/dtype"
"""Suffixes of an array's key: for its shape, and for NumPy's name of its dtype."""


def array_of(example: Example, key: str) -> NDArray[Any] | None:
    """Return an array with its shape and dtype beside it; None if the example has none.

    Raises:
        ValueError: Its shape or dtype does not fit its numbers.
    """
    values, shape, dtypes = (example.get(each, []) for each in (key, key + SHAPE, key + DTYPE))
    if not len(dtypes):
        return None
    dtype = np.dtype(cast(list[bytes], dtypes)[0].decode()).newbyteorder("<")
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise ValueError(f"dtype {dtype}")
    is_bytes = isinstance(values, list) and len(values) > 0
    found = np.frombuffer(cast(list[bytes], values)[0], dtype) if is_bytes else np.asarray(values)
    return found.astype(dtype).reshape(np.asarray(shape, np.int64).tolist())
