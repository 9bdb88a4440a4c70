"""A record set as raw data: each value once, in storage order; recipes that store them again, also as a variant."""

import contextlib
import dataclasses
import functools
import io
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import PIL
from numpy.typing import NDArray
from PIL import Image
from typing_extensions import override

from recordzoo.base.settings import command
from recordzoo.base.text import JSON, did_you_mean
from recordzoo.errors import ArgumentError, FolderError, OtherSourceError, SourceError
from recordzoo.raw.member import Member, SizedSource, Source, Unit
from recordzoo.recipes.recipe import PNG_LEVEL, Blob, Recipe, Sidecar, Stored, Table, open_image, problem_of, quiet
from recordzoo.records.arrays import AnyArray
from recordzoo.records.manifest import NO_SHARD, ORIGINAL, BlobSpec, Manifest
from recordzoo.records.reader import RecordReader, is_record_set
from recordzoo.records.writer import LIST_FILE, MADE_FROM_FILE, MAX_EXTRA_BYTES, TREE_FILE

Entry = tuple[str, str, int, int]
"""A stored value: field, name, position in the set, size in bytes."""

_COUNTED_ANEW = ("num_bad", "num_skipped")  # metadata
_HINTED = 64  # values hinted at once: from a URL they are fetched together


@dataclass(frozen=True, slots=True)
class StoredValue(Member):
    """A stored value of a blob field, as a member; its name is unique within the field."""

    field: str


def shapes_of(reader: RecordReader, field: str) -> NDArray[np.uint32]:
    """Return the shapes of a raw field's values, uint32 [n, dimensions]."""
    shape = reader.manifest.blobs[field].shape
    if shape is None:
        return reader.array(f"{field}.shape")
    return np.broadcast_to(np.array(shape, np.uint32), (len(reader), len(shape)))


def _unique(names: list[str]) -> list[str]:
    """Number duplicate names, which a user's own list may have."""
    if len(set(names)) == len(names):
        return names
    times: dict[str, int] = {}
    for place, name in enumerate(names):
        times[name] = times.get(name, 0) + 1
        if times[name] > 1:
            names[place] = f"{name}\0{times[name]}"  # no name contains a NUL
    return names


@dataclass(frozen=True)
class SetSource(SizedSource):
    """All stored values of a record set, or of some of its records.

    Attributes:
        reader: The set.
        digest: The fingerprint.
        positions: The records, int64 [N]. Default: all.
    """

    reader: RecordReader
    digest: str
    positions: NDArray[np.int64] | None = None

    @property
    @override
    def description(self) -> str:
        return str(self.reader.path)

    @override
    def fingerprint(self) -> str:
        return self.digest

    @override
    def records_bytes(self, expansion: float, cost: Callable[[int], int]) -> int:
        return sum(map(cost, self._sizes))

    @override
    def member_sizes(self) -> Sequence[int]:
        return self._sizes

    @functools.cached_property
    def names(self) -> list[str]:
        """The records' names."""
        names: Sequence[str] = self.reader.names
        if self.positions is None:
            return list(names)
        if 2 * len(self.positions) > len(names):  # iterating is faster than indexing
            names = list(names)
        return [names[position] for position in self.positions.tolist()]

    def chosen(self, values: AnyArray) -> AnyArray:
        """Return the records' elements of an array over the whole set."""
        return values if self.positions is None else values[self.positions]

    def splits(self) -> dict[str, NDArray[np.int64]]:
        """Return the splits, as places in the order of the records; of some records those that have any left."""
        found = {name: np.asarray(self.reader.split(name), np.int64) for name in self.reader.manifest.splits}
        if self.positions is None:
            return found
        place = np.full(len(self.reader), -1, np.int64)
        place[self.positions] = np.arange(len(self.positions))
        kept = {name: place[positions][place[positions] >= 0] for name, positions in found.items()}
        return {name: places for name, places in kept.items() if len(places)}

    def keys(self) -> dict[str, list[str | None]]:
        """Return the keys of each blob field for a `Table`."""
        return {name: keys for name, (_, _, keys) in self._fields.items()}

    @functools.cached_property
    def _entries(self) -> list[Entry]:
        """All values, in storage order."""
        entries = [entry for _, several, _ in self._fields.values() for entry in several]
        places = [places for places, _, _ in self._fields.values()]
        order = np.argsort(np.concatenate(places), kind="stable").tolist() if places else []
        return [entries[number] for number in order]

    @functools.cached_property
    def _fields(self) -> dict[str, tuple[NDArray[np.uint64], list[Entry], list[str | None]]]:
        return {name: self._field(name) for name in self.reader.manifest.blobs}

    def _field(self, field: str) -> tuple[NDArray[np.uint64], list[Entry], list[str | None]]:
        """Return the places of a blob field's values in the shards, the values, and the key of each record's value.

        Records may share a value: a list may name a file several times. Its key is the name of the first of them.
        """
        index = self.chosen(self.reader.array(f"{field}.index"))
        present = np.flatnonzero(index["shard"] != NO_SHARD)
        rows = index[present]
        every = rows["shard"].astype(np.uint64) << np.uint64(32) | rows["slot"]
        places, first, numbers = np.unique(every, return_index=True, return_inverse=True)
        records = present[first]
        keys = _unique([self.names[record] for record in records.tolist()])
        positions = records if self.positions is None else self.positions[records]
        lengths = rows["length"][first].tolist()
        entries = [(field, *value) for value in zip(keys, positions.tolist(), lengths, strict=True)]
        key_of: list[str | None] = [None] * len(index)
        for record, number in zip(present.tolist(), numbers.tolist(), strict=True):
            key_of[record] = keys[number]
        return places, entries, key_of

    @functools.cached_property
    def _sizes(self) -> list[int]:
        return [size for *_, size in self._entries]

    @override
    def unit(self, start: int, stop: int) -> Unit:
        """See `SizedSource`; without a stamp, because the set's digest detects any change."""
        entries = self._entries[start:stop]
        return Unit(functools.partial(_values_of, self.reader, tuple(entries)), sum(size for *_, size in entries))


def _values_of(reader: RecordReader, entries: Sequence[Entry]) -> Iterator[Member]:
    """Yield consecutive values; `Member.read` raises `CorruptRecordError` if one is damaged."""
    for place, (field, name, position, size) in enumerate(entries):
        if place % _HINTED == 0:
            wanted: dict[str, list[int]] = {}
            for other, _, number, _ in entries[place : place + _HINTED]:
                wanted.setdefault(other, []).append(number)
            for other, positions in wanted.items():
                reader.hint(other, positions)
        yield StoredValue(name, size, functools.partial(reader.read, field, position), field)


class SetRecipe(Recipe):
    """A recipe whose raw data is a record set: stored values stay unchanged."""

    reader: RecordReader
    source: SetSource | None = None
    """What `find` found; a pickled copy has none: units have their own readers."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "source": None}

    @override
    def looked_for(self, root: Path) -> list[str]:
        return [self.reader.path.name]

    @override
    def extract(self, member: Member) -> Iterator[Blob]:
        assert isinstance(member, StoredValue)
        yield Blob(member.field, member.name, member.read())

    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        """See `Recipe`: the records of the set, without what the set says of all of them."""
        assert self.source is not None
        source, manifest = self.source, self.source.reader.manifest
        raw = [name for name, field in self.fields.items() if field.encoding == "raw" and field.shape is None]
        return Table(
            names=source.names,
            keys=source.keys(),
            arrays={name: source.chosen(source.reader.array(name)) for name in manifest.columns},
            splits=source.splits(),
            fields=manifest.fields,
            default_target=manifest.default_target,
            shapes={name: source.chosen(shapes_of(source.reader, name)) for name in raw},
        )


class StoredRecipe(SetRecipe):
    """The records of a record set, in place of raw data."""

    def __init__(self, reader: RecordReader) -> None:
        manifest = reader.manifest
        self.reader = reader
        self.kind, self.dataset, self.part = manifest.kind, manifest.dataset, manifest.part
        self.origin = manifest.source
        self.made_from = manifest.raw_files
        self.fields = manifest.blobs

    def target(self, root: Path) -> Path:
        """See `Recipe`: itself; not a link to it, beside which variants do not belong."""
        return self.reader.folder.resolve()

    @override
    def title(self, root: Path) -> str:
        return self.reader.path.name.removesuffix(".records")

    @override
    def command(self, root: Path) -> str:
        return command("prepare", self.reader.path)

    def find(self, root: Path) -> Source | None:
        """See `Recipe`: the record set as it is now."""
        if not is_record_set(self.reader.folder):
            return None
        reader = RecordReader(self.reader.path)
        self.source = SetSource(reader, reader.digest)
        return self.source

    def extras(self) -> Mapping[str, bytes]:
        """See `Recipe`: where the tree or the list was, and its files."""
        found = {name: self.reader.extra(name, MAX_EXTRA_BYTES) for name in (TREE_FILE, LIST_FILE, MADE_FROM_FILE)}
        return {name: data for name, data in found.items() if data is not None}

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        manifest = self.reader.manifest
        metadata = {name: value for name, value in manifest.metadata.items() if name not in _COUNTED_ANEW}
        return dataclasses.replace(super().build_table(stored, sidecars), metadata=metadata, skipped=manifest.skipped)


DEFAULT_QUALITY = 90

MAX_SIDE = 65_500
"""JPEG's maximum."""

RESAMPLING = Image.Resampling.BILINEAR
"""Pillow's, antialiased: `torchvision.transforms.Resize` at its default. So ``Resize(256)`` of an original and the raw
variant "256" are the same pixels."""

ENCODER = f"Pillow {PIL.__version__}"

# Bytes that a pixel takes, a little more than on photographs of ImageNet (docs/variants.md).
_BYTES_PER_PIXEL = {"jpeg": 0.36, "png": 2.0, "webp": 0.33, "raw": 3.0}
_ORIGINAL_BYTES_PER_PIXEL = 0.5
_ASPECT = 4 / 3
_HEADER_BYTES = 620  # of a JPEG: its tables
_LOSSY = ("jpeg", "webp")
_NAME = re.compile(
    r"(?:full|(?P<max>max)?(?P<side>[1-9][0-9]{0,4}))(?:-(?P<format>png|webp|raw))?(?:-q(?P<quality>[1-9][0-9]{0,2}))?"
)
_SIZE = "size\0"  # before an image's key: the name of a side that holds the height and width of its raw pixels
_SIZE_FORMAT = struct.Struct("<II")
_TYPICAL_BYTES = 110_000  # of a photograph in ImageNet or CUB-200-2011


def variant_recipe(recipe: Recipe, root: Path, name: str | None, *, anew: bool = False) -> Recipe:
    """Return the recipe of a variant, from the original record set if it exists, else from the raw data.

    Args:
        recipe: How the original record set is made; or the recipe of a variant of it.
        root: Where the raw data is.
        name: The variant's; None or "original" for `recipe` as it is.
        anew: Whether raw data that is there counts more than the original record set, which may be older.

    Raises:
        ArgumentError: It is no variant's name; or the dataset holds more than images, which would not fit them.
        OtherSourceError: The original record set is a variant itself.
    """
    if name is None or name == ORIGINAL:
        return recipe
    raw = recipe.raw if isinstance(recipe, VariantRecipe) else recipe
    inner, original = raw, raw.target(root)
    if not isinstance(raw, StoredRecipe) and is_record_set(original) and not (anew and _is_there(raw, root)):
        reader = RecordReader(original)
        if raw.difference(reader.manifest, root) is None:
            inner = StoredRecipe(reader)
    if isinstance(inner, StoredRecipe):
        check_variant(inner.reader, ORIGINAL)
    _check_fields(inner, root)
    return VariantRecipe(inner, Variant.parse(name), original, raw)


def _is_there(recipe: Recipe, root: Path) -> bool:
    with contextlib.suppress(FolderError, SourceError):
        return recipe.find(root) is not None
    return False


def check_variant(reader: RecordReader, name: str | None) -> None:
    """Refuse a record set of another variant than the one that is asked for; None asks for none."""
    found = reader.manifest.variant
    if name is not None and found != name:
        hint = "variants are made of the original" if name == ORIGINAL else "pass another records_dir, or none"
        raise OtherSourceError(
            f"{reader.path} holds the variant {found!r}, not {name!r}: {hint}.", path=str(reader.path), variant=found
        )


def _check_fields(recipe: Recipe, root: Path) -> None:
    pictures = [name for name, field in recipe.fields.items() if field.encoding in ("image", "raw")]
    image = recipe.fields.get("image")
    if image is None or image.encoding != "image":
        why = 'it has no "image"' if image is None else "its images are stored as numbers, not as image files"
    elif pictures != ["image"]:
        others = ", ".join(name for name in pictures if name != "image")
        why = f"its images come with others ({others}), which belong to the original's pixels and would not fit"
    else:
        return
    raise ArgumentError(f"There are no variants of {recipe.title(root)}: {why}.")


@dataclass(frozen=True, slots=True)
class Variant:
    """The size and format of converted images. Without a side, they keep their full size.

    Attributes:
        short_side: Images with a longer short side are reduced to this one, in pixels.
        max_side: Images with a longer long side are reduced to this one, instead.
        format: "jpeg", "png", "webp", or "raw": pixels, uint8 [H, W, 3].
        quality: For JPEG and WebP, 1 to 100; by default 90.
    """

    short_side: int | None = None
    max_side: int | None = None
    format: str = "jpeg"
    quality: int | None = None

    def __post_init__(self) -> None:
        if self.format not in _BYTES_PER_PIXEL:
            hint = did_you_mean(str(self.format), _BYTES_PER_PIXEL)
            raise ArgumentError(
                f"Unknown format {self.format!r} of a variant (--format). Valid are "
                f"{', '.join(_BYTES_PER_PIXEL)}.{hint}"
            )
        if self.short_side is not None and self.max_side is not None:
            raise ArgumentError(
                f"A variant has a short side ({self.short_side}) or a longest side ({self.max_side}), not both."
            )
        _check_number("side of a variant", self.side, MAX_SIDE)
        if self.quality is not None and self.format not in _LOSSY:
            raise ArgumentError(f"Quality {self.quality!r} is for JPEG and WebP; {self.format} loses nothing.")
        _check_number("quality of a variant", self.quality, 100)
        if self.quality is None and self.format in _LOSSY:
            object.__setattr__(self, "quality", DEFAULT_QUALITY)

    @classmethod
    def parse(cls, name: str) -> "Variant":
        """Read a variant's name: "256", "max512-webp", "256-raw", "full-png", "256-q95".

        Raises:
            ArgumentError: It is not a variant's name, or not the canonical one.
        """
        match = _NAME.fullmatch(name) if isinstance(name, str) else None
        if match is None:
            raise ArgumentError(
                f"Unknown value {name!r} for argument variant. Valid are '256' (the short side), 'max512' (the longest "
                "side) and 'full', each with '-png', '-webp' or '-raw' behind it for another format than JPEG, and "
                "'-q95' for another quality than 90."
            )
        side = None if match["side"] is None else int(match["side"])
        variant = cls(
            short_side=None if match["max"] else side,
            max_side=side if match["max"] else None,
            format=match["format"] or "jpeg",
            quality=None if match["quality"] is None else int(match["quality"]),
        )
        if str(variant) != name:
            raise ArgumentError(f"Unknown value {name!r} for argument variant; what it says is called '{variant}'.")
        return variant

    def __str__(self) -> str:
        side = "full" if self.side is None else f"max{self.max_side}" if self.max_side else str(self.short_side)
        image_format = "" if self.format == "jpeg" else f"-{self.format}"
        quality = "" if self.quality in (None, DEFAULT_QUALITY) else f"-q{self.quality}"
        return f"{side}{image_format}{quality}"

    @property
    def side(self) -> int | None:
        """The side that is given; None for the full size."""
        return self.short_side if self.max_side is None else self.max_side

    @property
    def flags(self) -> str:
        """The options of `recordzoo prepare` that ask for it."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        if self.quality == DEFAULT_QUALITY:
            del given["quality"]
        if self.format == "jpeg" and len(given) > 1:
            del given["format"]
        return " ".join(f"--{name.replace('_', '-')} {value}" for name, value in given.items())

    def size_of(self, width: int, height: int) -> tuple[int, int]:
        """Return the width and height that an image of this size gets: never larger ones.

        They are those of ``torchvision.transforms.Resize(short_side)``, and of v2's ``Resize(None, max_side)``.
        """
        short, long = sorted((width, height))
        if self.short_side is not None and short > self.short_side:
            short, long = self.short_side, int(self.short_side * long / short)
        elif self.max_side is not None and long > self.max_side:
            short, long = max(1, int(self.max_side * short / long)), self.max_side
        return (short, long) if width <= height else (long, short)

    def estimated_bytes(self, size_bytes: int) -> int:
        """Estimate, on the high side, the stored size of a photograph whose JPEG has `size_bytes`."""
        pixels = largest = size_bytes / _ORIGINAL_BYTES_PER_PIXEL
        if self.short_side is not None:
            largest = self.short_side**2 * _ASPECT
        elif self.max_side is not None:
            largest = self.max_side**2 / _ASPECT
        if self.format == "jpeg" and self.side is not None and pixels <= largest:
            return size_bytes  # stored untouched
        return int(min(pixels, largest) * _BYTES_PER_PIXEL[self.format]) + _HEADER_BYTES


def _check_number(what: str, value: object, largest: int) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= largest):
        raise ArgumentError(f"The {what} is {value!r}; it must be a whole number from 1 to {largest}.")


class VariantRecipe(Recipe):
    """The records of another recipe, with its images converted.

    Args:
        inner: The recipe of the records, from raw data or from the original record set.
        wanted: The size and format of the stored images.
        original: The path of the original record set, which may not exist; the variant is beside it.
        raw: The recipe of the records from raw data.
    """

    def __init__(self, inner: Recipe, wanted: Variant, original: Path, raw: Recipe) -> None:
        self.inner, self.wanted, self.original, self.raw = inner, wanted, original, raw
        self.kind, self.dataset, self.part, self.origin = inner.kind, inner.dataset, inner.part, inner.origin
        self.raw_files, self.made_from, self.counts = inner.raw_files, inner.made_from, inner.counts
        self.expansion = inner.expansion * self.stored_bytes(_TYPICAL_BYTES) / _TYPICAL_BYTES

    @property
    @override
    def variant(self) -> str:  # type: ignore[override]  # a constant of other recipes
        return str(self.wanted)

    @override
    def difference(self, manifest: Manifest, root: Path) -> str | None:
        is_other = manifest.variant != self.variant
        return f"is the variant {manifest.variant}" if is_other else self.inner.difference(manifest, root)

    @property
    @override
    def fields(self) -> Mapping[str, BlobSpec]:  # type: ignore[override]  # a list's are known when it was read
        image = BlobSpec("raw", None, "|u1") if self._is_raw else BlobSpec("image")
        return {**self.inner.fields, "image": image}

    @property
    def _is_raw(self) -> bool:
        return self.wanted.format == "raw"

    @property
    def set_name(self) -> str:
        """See `Recipe`: "imagenet.train-256"."""
        return f"{self.inner.set_name}-{self.wanted}"

    @property
    def options(self) -> Mapping[str, JSON]:
        """See `Recipe`: another Pillow may give other bytes."""
        return {**self.inner.options, "encoder": ENCODER}

    @override
    def stored_bytes(self, size_bytes: int) -> int:
        return self.wanted.estimated_bytes(size_bytes)

    @override
    def target(self, root: Path) -> Path:
        return self.original.with_name(f"{self.original.name.removesuffix('.records')}-{self.wanted}.records")

    @override
    def title(self, root: Path) -> str:
        return f"{self.inner.title(root)}-{self.wanted}"

    @override
    def command(self, root: Path) -> str:
        return f"{self.raw.command(root)} {self.wanted.flags}"

    @override
    def find(self, root: Path) -> Source | None:
        return self.inner.find(root)

    @override
    def looked_for(self, root: Path) -> list[str]:
        return list(dict.fromkeys([self.original.name, *self.inner.looked_for(root)]))

    @override
    def worker_setup(self) -> Callable[[], None] | None:
        return self.inner.worker_setup()

    @override
    def extras(self) -> Mapping[str, bytes]:
        return self.inner.extras()

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        for item in self.inner.extract(member):
            if isinstance(item, Blob) and item.field == "image":
                yield from self._converted(item)
            else:
                yield item

    def _converted(self, blob: Blob) -> Iterator[Blob | Sidecar]:
        """Convert an image. If that fails, keep it unchanged, or without pixels, with the reason."""
        try:
            data, (width, height) = converted(blob.data, self.wanted)
            problem = None
        except Exception as err:  # noqa: BLE001 - Pillow's format plug-ins raise anything on broken images
            data, width, height = b"" if self._is_raw else blob.data, 0, 0
            problem = problem_of(err, blob.data)
        if self._is_raw:
            yield Sidecar(_SIZE + blob.key, _SIZE_FORMAT.pack(height, width))
        yield Blob("image", blob.key, data, checked=False, problem=problem)

    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        """See `Recipe`: the table of the records that it is a variant of."""
        others = {name: data for name, data in sidecars.items() if not name.startswith(_SIZE)}
        table = self.inner.build_table(stored, others)
        shapes = dict(table.shapes)
        if self._is_raw:
            keys = table.keys.get("image", table.names)
            missing = stored.skipped.get("image", frozenset()) | table.skipped.keys()
            sizes = [
                (0, 0, 0) if key is None or key in missing else (*_SIZE_FORMAT.unpack(sidecars[_SIZE + key]), 3)
                for key in keys
            ]
            shapes["image"] = np.array(sizes, np.uint32).reshape(-1, 3)
        details = {**asdict(self.wanted), "resampling": RESAMPLING.name.lower(), "encoder": ENCODER}
        return dataclasses.replace(table, shapes=shapes, metadata={**table.metadata, "variant": details})


def converted(data: bytes, variant: Variant) -> tuple[bytes, tuple[int, int]]:
    """Return the bytes to store for an encoded image, and its width and height.

    The pixels are those of torchvision's loader: RGB, EXIF's orientation not applied. An image that is no larger than
    the variant and of its format already is stored untouched.

    Raises:
        Exception: Any type: the image cannot be decoded, or cannot be encoded in this way.
    """
    with quiet():
        image = open_image(data)
        pixels = image.convert("RGB")  # decodes all of it: a truncated one is found even if it is stored untouched
        size = variant.size_of(*pixels.size)
        if variant.side is not None and size == pixels.size and image.format == variant.format.upper():
            return data, size
        if size != pixels.size:
            pixels = pixels.resize(size, RESAMPLING)
        if variant.format == "raw":
            return pixels.tobytes(), size
        buffer = io.BytesIO()
        pixels.info.clear()  # EXIF, ICC profiles, comments
        # Each format takes its own of these, and ignores the others.
        pixels.save(buffer, variant.format, quality=variant.quality, subsampling="4:2:0", compress_level=PNG_LEVEL)
        return buffer.getvalue(), size
