"""What samples are, in words: `describe([(image, 3), (image, 7)])` is ``(PIL image (RGB), int)``."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image

ANY_MODE = "mode of its file"


# Any, here and below: samples are of any type.
def describe(values: Sequence[Any]) -> str:
    """Describe values that stand at the same place in several samples.

    Sizes that differ between the samples are ``n``; keys that some lack, and None, are said to be optional.
    """
    there = [value for value in values if value is not None]
    if not there:
        return "None"
    kinds: dict[type, list[Any]] = {}
    for value in there:
        kinds.setdefault(_kind(value), []).append(value)
    texts = [_ONE[kind](found) if kind in _ONE else kind.__name__ for kind, found in kinds.items()]
    return " or ".join([*sorted(texts), "None"] if len(there) < len(values) else sorted(texts))


def parts(samples: Sequence[Any]) -> list[str]:
    """Describe each item of samples that are tuples, or the whole sample."""
    if all(isinstance(sample, tuple) for sample in samples) and len({len(sample) for sample in samples}) == 1:
        return [describe(column) for column in zip(*samples, strict=True)]
    return [describe(samples)]


def _kind(value: Any) -> type:
    known = (Image.Image, torch.Tensor, np.ndarray, np.generic, bool, int, float, str, Mapping, tuple, list)
    return next((kind for kind in known if isinstance(value, kind)), type(value))


def _images(values: Sequence[Image.Image]) -> str:
    modes = {value.mode for value in values}
    return f"PIL image ({modes.pop() if len(modes) == 1 else ANY_MODE})"


def _numbers(values: Sequence[Any]) -> str:
    name = "tensor" if isinstance(values[0], torch.Tensor) else "array"
    types = sorted({str(value.dtype).removeprefix("torch.") for value in values})
    return f"{name} {' or '.join(types)} {_shape([tuple(value.shape) for value in values])}"


def _shape(shapes: Sequence[tuple[int, ...]]) -> str:
    if len({len(shape) for shape in shapes}) > 1:
        return "[...]"
    return f"[{', '.join(str(sizes[0]) if len({*sizes}) == 1 else 'n' for sizes in zip(*shapes, strict=True))}]"


def _tuples(values: Sequence[tuple[Any, ...]]) -> str:
    if len({len(value) for value in values}) > 1:
        return f"tuple of {describe([item for value in values for item in value])}"
    return f"({', '.join(map(describe, zip(*values, strict=True)))})"


def _lists(values: Sequence[list[Any]]) -> str:
    items = [item for value in values for item in value]
    return f"list of {describe(items)}" if items else "list"


def _mappings(values: Sequence[Mapping[str, Any]]) -> str:
    keys = dict.fromkeys(key for value in values for key in value)
    items = []
    for key in keys:
        found = [value[key] for value in values if key in value]
        items.append(f"{key}{'?' if len(found) < len(values) else ''}: {describe(found)}")
    return f"{{{', '.join(items)}}}"


_ONE = {
    Image.Image: _images,
    torch.Tensor: _numbers,
    np.ndarray: _numbers,
    np.generic: lambda values: f"NumPy {values[0].dtype}",
    Mapping: _mappings,
    tuple: _tuples,
    list: _lists,
}
