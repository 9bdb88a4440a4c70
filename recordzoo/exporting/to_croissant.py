"""`to_croissant`: describe a record set in Croissant: its files with their hashes, splits, classes and fields."""

from recordzoo import catalogue
from recordzoo.base.types import JSON
from recordzoo.catalogue import croissant
from recordzoo.copying.files import named_files
from recordzoo.net.part import HashedFile
from recordzoo.net.url import Url
from recordzoo.records.kinds import FieldKind, FieldSpec
from recordzoo.records.manifest import ENDING, MANIFEST_NAME, ORIGINAL, Manifest
from recordzoo.records.reader import RecordReader

_LABELS = (FieldKind.CLASS, FieldKind.MULTILABEL)
_NUMBERS = {"b": "sc:Boolean", "f": "sc:Float"}  # by the letter of the dtype; other numbers are integers
_TYPES: dict[FieldKind, str | list[str]] = {
    FieldKind.TEXT: "sc:Text",
    FieldKind.JSON: "sc:Text",
    FieldKind.BOXES: "cr:BoundingBox",
    FieldKind.MASKS: ["cr:SegmentationMask", "sc:ImageObject"],
    FieldKind.IMAGE: "sc:ImageObject",
}
# A source that a program cannot follow, but mlcroissant wants one of each field, and refuses several in one record set.
_FILE_SET = {
    "@type": "cr:FileSet",
    "@id": "files",
    "name": "files",
    "description": "The files that hold the values; manifest.json says how.",
    "encodingFormat": [croissant.ENCODINGS["lmdb"], croissant.ENCODINGS["npy"]],
    "includes": ["*.lmdb", "*.npy"],
}
_SOURCE = {"source": {"fileSet": {"@id": _FILE_SET["@id"]}}}


def to_croissant(reader: RecordReader) -> dict[str, JSON]:
    """Describe a record set as a Croissant document.

    Addresses of files are relative to the record set's directory. At a URL they are absolute.
    """
    manifest = reader.manifest
    entry = catalogue.entry_of(manifest)
    variant = "" if manifest.variant == ORIGINAL else f", variant {manifest.variant}"
    about = f"A record set of recordzoo: {manifest.num_records:,} records{variant}."
    splits = [{"name": name, "count": count} for name, count in manifest.splits.items()]
    class_names = {name: spec.names for name, spec in manifest.fields.items() if spec.names}
    return {
        **croissant.head(
            entry.title if entry else croissant.valid_text(reader.path.name.removesuffix(ENDING)),
            f"{entry.summary} {about}" if entry else about,
            entry,
        ),
        "distribution": [*(_file(file, reader.path) for file in _files(reader)), _FILE_SET],
        **croissant.record_sets(
            croissant.splits(splits),
            *(croissant.classes(_classes(name), names) for name, names in class_names.items()),
            croissant.record_set("records", "The records, in the order of their positions.", _fields(manifest)),
        ),
    }


def _files(reader: RecordReader) -> list[HashedFile]:
    size = len(reader.extra(MANIFEST_NAME) or b"")
    return [HashedFile(MANIFEST_NAME, size, f"sha256:{reader.digest}"), *named_files(reader.manifest)]


def _file(file: HashedFile, folder: object) -> dict[str, JSON]:
    url = str(folder / file.name) if isinstance(folder, Url) else file.name
    return croissant.file_object(file.name, url, file.size_bytes, {"sha256": file.hash.removeprefix("sha256:")})


def _fields(manifest: Manifest) -> list[JSON]:
    """Describe the fields but those of bytes, for which Croissant has no type."""
    found = [croissant.field("records/name", "sc:Text", "The name of the record.", **_SOURCE)]
    if manifest.splits:
        about = "The splits that have the record."
        found.append(
            croissant.field("records/split", "sc:Text", about, **_SOURCE, **_array((-1,)), **_values_of("splits/name"))
        )
    fields = manifest.fields.items()
    return found + [_field(manifest, name, spec) for name, spec in fields if spec.kind is not FieldKind.BYTES]


def _field(manifest: Manifest, name: str, spec: FieldSpec) -> dict[str, JSON]:
    dtype, shape = _stored(manifest, name)
    number = _NUMBERS.get(dtype[1:2], "sc:Integer")
    about = f"In {name}.npy." if name in manifest.arrays else "In the shards."
    if spec.kind in (FieldKind.IMAGE, FieldKind.MASKS):
        shape = ()
    elif spec.kind is FieldKind.BOXES:
        shape = shape[:-1]  # cr:BoundingBox is four numbers
        about += f" Boxes as {spec.box_format}." if spec.box_format else ""
        about += " Coordinates are fractions of the image's size." if spec.is_normalized else ""
    elif spec.kind is FieldKind.JSON:
        about += " A JSON document."
    return croissant.field(
        f"records/{name}",
        [number, "cr:Label"] if spec.kind in _LABELS else _TYPES.get(spec.kind, number),
        about,
        **_SOURCE,
        **_array(shape),
        **(_values_of(f"{_classes(name)}/number") if spec.kind is FieldKind.CLASS and spec.names else {}),
    )


def _stored(manifest: Manifest, name: str) -> tuple[str, tuple[int, ...]]:
    """Return the dtype and the shape of a field's numbers; -1 is a size that differs, "" is a field without numbers."""
    if name in manifest.arrays:
        return manifest.arrays[name].dtype, manifest.arrays[name].shape[1:]
    blob = manifest.blobs[name]
    if blob.encoding == "raw" and blob.shape is None:
        return blob.dtype, (-1,) * manifest.arrays[f"{name}.shape"].shape[1]
    return blob.dtype, blob.shape or ()


def _array(shape: tuple[int, ...]) -> dict[str, JSON]:
    return {"isArray": True, "arrayShape": ",".join(map(str, shape))} if shape else {}


def _classes(field: str) -> str:
    return f"{field}_classes"


def _values_of(field: str) -> dict[str, JSON]:
    """Say that a field's values are those of another one."""
    return {"references": {"field": {"@id": field}}}
