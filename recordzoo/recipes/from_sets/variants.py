"""Recipe for a variant: another recipe's images, converted before they are stored."""

import dataclasses
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
from typing_extensions import override

from recordzoo.base.program import command
from recordzoo.base.types import JSON
from recordzoo.errors import ArgumentError, OtherSourceError
from recordzoo.raw.member import Member, Source
from recordzoo.recipes.base import Blob, BlobField, Recipe, Sidecar, Stored, Table
from recordzoo.recipes.from_sets.source import SetRecipe, SetSource
from recordzoo.recipes.from_sets.variant import ENCODER, RESAMPLING, Variant, converted
from recordzoo.recipes.images import problem_of
from recordzoo.records.made_from import LIST_FILE, MADE_FROM_FILE, MAX_EXTRA_BYTES, TREE_FILE
from recordzoo.records.manifest import ORIGINAL, Manifest
from recordzoo.records.reader import RecordReader, is_record_set

_COUNTED_ANEW = ("num_bad", "num_skipped")
_SIZE = "size\0"  # before an image's key: the name of a side that holds the height and width of its raw pixels
_SIZE_FORMAT = struct.Struct("<II")
_TYPICAL_BYTES = 110_000  # of a photograph in ImageNet or CUB-200-2011


class StoredRecipe(SetRecipe):
    """The records of a record set, in place of raw data."""

    def __init__(self, reader: RecordReader) -> None:
        manifest = reader.manifest
        self.reader = reader
        self.kind, self.dataset, self.part = manifest.kind, manifest.dataset, manifest.part
        self.origin = manifest.source
        self.made_from = manifest.raw_files
        self.fields = {name: BlobField(*dataclasses.astuple(spec)) for name, spec in manifest.blobs.items()}

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

    @override
    def looked_for(self, root: Path) -> list[str]:
        return [self.reader.path.name]

    def extras(self) -> Mapping[str, bytes]:
        """See `Recipe`: where the tree or the list was, and its files."""
        found = {name: self.reader.extra(name, MAX_EXTRA_BYTES) for name in (TREE_FILE, LIST_FILE, MADE_FROM_FILE)}
        return {name: data for name, data in found.items() if data is not None}

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        manifest = self.reader.manifest
        metadata = {name: value for name, value in manifest.metadata.items() if name not in _COUNTED_ANEW}
        return dataclasses.replace(super().build_table(stored, sidecars), metadata=metadata, skipped=manifest.skipped)


def variant_recipe(recipe: Recipe, root: Path, name: str | None) -> Recipe:
    """Return the recipe of a variant, from the original record set if it exists, else from the raw data.

    Args:
        recipe: How the original record set is made.
        root: Where the raw data is.
        name: The variant's; None or "original" for `recipe` as it is.

    Raises:
        ArgumentError: It is no variant's name; or the dataset holds more than images, which would not fit them.
        OtherSourceError: The original record set is a variant itself.
    """
    if name is None or name == ORIGINAL or isinstance(recipe, VariantRecipe):
        return recipe
    variant = Variant.parse(name)
    original = recipe.target(root)
    if not isinstance(recipe, StoredRecipe) and is_record_set(original):
        reader = RecordReader(original)
        if recipe.is_of(reader.manifest, root):
            recipe = StoredRecipe(reader)
    if isinstance(recipe, StoredRecipe):
        check_variant(recipe.reader, ORIGINAL)
    _check_fields(recipe, root)
    return VariantRecipe(recipe, variant, original)


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


class VariantRecipe(Recipe):
    """The records of another recipe, with its images converted.

    Args:
        inner: The recipe of the records, from raw data or from the original record set.
        wanted: The size and format of the stored images.
        original: The path of the original record set, which may not exist; the variant is beside it.
    """

    def __init__(self, inner: Recipe, wanted: Variant, original: Path) -> None:
        self.inner, self.wanted, self.original = inner, wanted, original
        self.kind, self.dataset, self.part, self.origin = inner.kind, inner.dataset, inner.part, inner.origin
        self.raw_files, self.made_from, self.counts = inner.raw_files, inner.made_from, inner.counts
        self.expansion = inner.expansion * self.stored_bytes(_TYPICAL_BYTES) / _TYPICAL_BYTES

    @property
    @override
    def variant(self) -> str:  # type: ignore[override]  # a constant of other recipes
        return str(self.wanted)

    @override
    def is_of(self, manifest: Manifest, root: Path) -> bool:
        return manifest.variant == self.variant and self.inner.is_of(manifest, root)

    @property
    @override
    def fields(self) -> Mapping[str, BlobField]:  # type: ignore[override]  # a list's are known when it was read
        image = BlobField("raw", None, "|u1") if self._is_raw else BlobField("image")
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
        return f"{self.inner.command(root)} {self.wanted.flags}"

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
            missing = stored.skipped.get("image", ())
            sizes = [
                (0, 0, 0) if key is None or key in missing else (*_SIZE_FORMAT.unpack(sidecars[_SIZE + key]), 3)
                for key in keys
            ]
            shapes["image"] = np.array(sizes, np.uint32).reshape(-1, 3)
        details = {**self.wanted.to_json(), "resampling": RESAMPLING.name.lower(), "encoder": ENCODER}
        return dataclasses.replace(table, shapes=shapes, metadata={**table.metadata, "variant": details})
