"""The extensions in a WebDataset, and the type of each one's files."""

import functools
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from recordzoo.formats.base import fault
from recordzoo.system.npy import array_of, header_of

MAX_KEYS = 256

_LOOKED_AT = 256
_SHARDS_LOOKED_AT = 8
_KEPT = 64  # samples of the first shard that show how fields are stored
_LOOKED_AT_ELSEWHERE = 16

IMAGES = frozenset(
    ("jpg", "jpeg", "png", "webp", "ppm", "pgm", "pbm", "pnm", "gif", "bmp", "tif", "tiff", "avif", "img", "image")
)
"""Endings of images; WebDataset's writer takes the last two for JPEG."""

IDS = frozenset(("id", "index", "inx"))
"""Extensions of numbers that may be text in a later sample."""

_NUMBER = re.compile(rb"\s*[+-]?[0-9]{1,100}\s*")


# Any, here and below: numbers, arrays, text, JSON or bytes.
def decode(ending: str, data: bytes) -> Any:
    """Decode a file. WebDataset's own decoding is the model (webdataset/autodecode.py), without its pickles.

    Args:
        ending: The last part of its name, in small letters: of ``left.png`` that is ``png``.
        data: Its bytes.

    Raises:
        ValueError: The content does not fit the extension.
    """
    return _DECODERS.get(ending, bytes)(data)


def stored_as(name: str, kind: str) -> str:
    """Return the kind of values, as in `convert`; "" for numbers and arrays, whose kind follows from the values.

    Args:
        name: The extension.
        kind: How its files are read: an extension that is decoded, "text" or "bytes".
    """
    if kind == "bytes":
        return "image" if name.rpartition(".")[2] in IMAGES else "bytes"
    return "json" if kind == "text" or _DECODERS[kind] in (as_text, as_json) else ""


def as_text(data: bytes) -> str:
    """Return text in UTF-8.

    Raises:
        ValueError: It is none.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as err:
        raise ValueError(f"it is no text in UTF-8 ({err})") from None


def as_number(data: bytes) -> int:
    """Return a whole number in decimal digits.

    Raises:
        ValueError: It is none.
    """
    if not _NUMBER.fullmatch(data):
        raise ValueError(f"{data[:40]!r} is no whole number")
    return int(data)


def as_json(data: bytes) -> Any:
    """Parse JSON; NaN and Infinity, which only Python writes, become None.

    Raises:
        ValueError: It is not JSON.
    """
    try:
        return json.loads(data, parse_constant=lambda name: None)
    except (ValueError, RecursionError) as err:
        raise ValueError(f"it is no JSON ({err})") from None


def as_npy(data: bytes) -> NDArray[Any]:
    """Return an array that `numpy.save` wrote, without copying it. Nothing is allocated for a forged shape.

    Raises:
        ValueError: It is not an array, or its dtype is `object` (pickles) or one that record sets lack.
    """
    try:
        header = header_of(data)
        _, shape, _, dtype, start = header
        if dtype.hasobject:
            raise ValueError("it holds Python objects, which are never unpickled")
        if dtype.kind not in "biuf" or dtype.itemsize > 8:
            raise ValueError(f"dtype {dtype}")
        if any(side < 0 for side in shape) or math.prod(shape) * dtype.itemsize != len(data) - start:
            raise ValueError(f"shape {list(shape)} of {dtype} in {len(data) - start:,} bytes")
        return array_of(data, header)
    except (ValueError, OverflowError) as err:
        raise ValueError(f"it is no array that is read here ({err})") from None


_DECODERS: Mapping[str, Callable[[bytes], Any]] = {
    **dict.fromkeys(("cls", "cls2", "class", "count", "index", "inx", "id"), as_number),
    **dict.fromkeys(("txt", "text", "transcript"), as_text),
    **dict.fromkeys(("json", "jsn"), as_json),
    "npy": as_npy,
}


class Keys:
    """The extensions of some samples.

    Attributes:
        names: The extensions, in the order of their first file.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self._together: set[frozenset[str]] = set()
        self._count: Counter[str] = Counter()
        self._decoded: Counter[str] = Counter()
        self._texts: Counter[str] = Counter()

    def add(self, names: set[str]) -> None:
        """Add extensions of samples that were not inspected."""
        self.names += sorted(names.difference(self.names))

    def look(self, parts: Mapping[str, bytes]) -> None:
        """Add a sample."""
        self.names += [key for key in parts if key not in self._count]
        self._count.update(parts.keys())
        self._together.add(frozenset(parts))
        for key, data in parts.items():
            ending = _last(key)
            if ending in _DECODERS:
                self._decoded[key] += _works(functools.partial(decode, ending), data)
                self._texts[key] += _works(as_text, data)

    def kinds(self) -> dict[str, str]:
        """Return how files of each extension are read: an extension that is decoded, "text" or "bytes".

        If none of the samples holds what an extension says (a pickle in ``npy``, a name in ``cls``), it is text if all
        are; otherwise bytes. Numbers of samples (``id``) are text if any of them is.
        """
        return {key: self._kind(key) for key in self.names}

    def _kind(self, key: str) -> str:
        ending, count = _last(key), self._count[key]
        if ending not in _DECODERS:
            return "bytes"
        if not count or self._decoded[key] == count or (self._decoded[key] and ending not in IDS):
            return ending
        return "text" if self._texts[key] == count else "bytes"

    def images(self, named: Mapping[str, str]) -> list[str]:
        """Return the extensions that become the field "image": no sample has two of them.

        Args:
            named: Fields of extensions that the user named.
        """
        chosen = [key for key, field in named.items() if field == "image"]
        for key in self.names:
            is_candidate = key in IMAGES and key not in named
            if is_candidate and not any(key in group and not group.isdisjoint(chosen) for group in self._together):
                chosen.append(key)
        return chosen


# A shard's samples: pairs of a key and its files by extension.
Samples = Callable[[Path], Iterator[tuple[str, dict[str, bytes]]]]

Seen = tuple[int, tuple[str, dict[str, bytes]]]
"""An inspected sample: its shard's number, its key and its files."""


def look(samples: Samples, files: Sequence[Path]) -> tuple[Keys, list[Seen]]:
    """Inspect the first samples of the first shard, and fewer of some others.

    Returns:
        The extensions; some of the samples, each with its shard's number.
    """
    keys, seen = Keys(), list[Seen]()
    for number in range(0, len(files), max(1, len(files) // _SHARDS_LOOKED_AT)):
        path = files[number]
        kept = len(seen) + (1 if seen else _KEPT)
        for key, parts in itertools.islice(samples(path), _LOOKED_AT_ELSEWHERE if number else _LOOKED_AT):
            keys.look(parts)
            if len(seen) < kept:
                seen.append((number, (key, parts)))
            if len(keys.names) > MAX_KEYS:
                raise fault(
                    path, f": its samples have more than {MAX_KEYS} different extensions, so it is no WebDataset."
                )
    return keys, seen


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def _works(function: Callable[[bytes], object], data: bytes) -> bool:
    try:
        function(data)
    except ValueError:
        return False
    return True
