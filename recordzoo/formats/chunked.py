"""`Chunked`: items with keys, which MDS and LitData have, become samples with fields."""

import itertools
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from PIL import Image
from typing_extensions import override

from recordzoo.errors import ArgumentError, SourceError
from recordzoo.formats.base import Foreign, Piece, Sample, field_name
from recordzoo.recipes.images import sniffed_ending

_LOOKED_AT = 64
_IMAGES = ("image", "img", "jpg", "jpeg", "png", "webp", "pil", "x")
_TARGETS = ("target", "label", "class", "cls", "y")
_TAKEN = ("name", "names", "names_offsets", "split")


class Chunked(Foreign):
    """Items in chunks, each chunk a piece. The first items tell which keys there are, and what these become."""

    def look(self) -> None:
        """Read the first items, and name the fields.

        Raises:
            SourceError: They are damaged.
            ArgumentError: Argument ``fields`` names what is not there, or one field twice.
        """
        items = (item for piece in self.pieces for _, item in self.items(piece))
        first = list(itertools.islice(items, _LOOKED_AT))
        lists = {key for item in first for key, value in item.items() if isinstance(value, tuple)}
        self._lengths = {key: max(len(item[key]) for item in first if key in item) for key in lists}
        self._named = self._fields(first[0]) if first else {}

    # Any, here and below: values of all kinds.
    @abstractmethod
    def items(self, piece: Piece) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield where each item of a piece is, for messages, and its values by key; a list of images is a tuple.

        Raises:
            SourceError: The chunk is damaged.
        """

    @override
    def read(self, piece: Piece) -> Iterator[Sample]:
        for number, (where, item) in enumerate(self.items(piece)):
            values = self._spread(item)
            if more := values.keys() - self._named.keys():
                raise SourceError(
                    f"{where}: it has {', '.join(sorted(more))}, which none of the first {_LOOKED_AT} samples has."
                )
            sample = {field: values[key] for key, field in self._named.items()}
            image = sample.get("image")
            ending = sniffed_ending(image) if isinstance(image, bytes) else ""
            yield {"name": f"{piece.name}/{number:06d}{ending}", **sample}

    def _fields(self, first: Mapping[str, Any]) -> dict[str, str]:
        """Return the field that each key becomes, "image" first: small pixels would not be one elsewhere."""
        values = self._spread(first)
        self.check_fields(list(values))
        images = [key for key, value in first.items() if _is_image(value)]
        numbers = [
            key for key, value in first.items() if isinstance(value, int | np.integer) and not isinstance(value, bool)
        ]
        usual = dict.fromkeys(_by_name(images, _IMAGES) or _only(images), "image")
        usual |= dict.fromkeys(_by_name(numbers, _TARGETS) or _only(list(filter(str.isdigit, numbers))), "target")
        found: dict[str, str] = {}
        for key in sorted(values, key=lambda key: (key not in self.fields, key not in usual)):
            field = self.fields.get(key)
            if field in found.values():
                raise ArgumentError(f"Argument fields gives two keys the name {field!r}.")
            field = field or usual.get(key) or field_name(key)
            found[key] = _free(field, found) if key not in self.fields else field
        order = sorted(values, key=lambda key: found[key] != "image")
        return {key: found[key] for key in order}

    def _spread(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """Give each image of a list a key of its own; a shorter list has None in the place of the others."""
        spread: dict[str, Any] = {}
        for key, value in item.items():
            if isinstance(value, tuple):
                images = [*value, *[None] * (self._lengths.get(key, 0) - len(value))]
                spread |= {f"{key}/{number}": image for number, image in enumerate(images)}
            else:
                spread[key] = value
        return spread


def _is_image(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype == np.uint8 and value.ndim in (2, 3)
    return isinstance(value, Image.Image) or (isinstance(value, bytes) and bool(sniffed_ending(value)))


def _by_name(keys: list[str], usual: tuple[str, ...]) -> list[str]:
    """Return the key with the first of the usual names, if there is one."""
    return [key for name in usual for key in keys if key.lower().removesuffix("/bytes") == name][:1]


def _only(keys: list[str]) -> list[str]:
    return keys if len(keys) == 1 else []


def _free(field: str, found: Mapping[str, str]) -> str:
    """Return a name that no other field has."""
    name, number = f"field_{field}" if field in _TAKEN else field, 2
    while name in found.values():
        name, number = f"{field}_{number}", number + 1
    return name
