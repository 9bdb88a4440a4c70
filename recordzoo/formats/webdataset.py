"""WebDataset: tar files whose members share a key; the extension of each is a field. Also written, for `export`."""

import io
import json
import math
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.errors import SourceError
from recordzoo.formats.base import Foreign, Piece, Sample, fault, find_shards, first_of, shard_pieces
from recordzoo.formats.samples import (
    Content,
    Export,
    ExportSample,
    choose,
    file_name,
    json_bytes,
    split_ending,
    write_classes,
)
from recordzoo.raw.archive import archive_members
from recordzoo.raw.member import MAX_MEMBER_BYTES, Member
from recordzoo.recipes.recipe import sniffed_ending
from recordzoo.records.arrays import array_of, header_of

TAR_ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")

IMAGES = frozenset(
    ("jpg", "jpeg", "png", "webp", "ppm", "pgm", "pbm", "pnm", "gif", "bmp", "tif", "tiff", "avif", "img", "image")
)
"""Endings of images; WebDataset's writer takes the last two for JPEG."""

IDS = frozenset(("id", "index", "inx"))
"""Extensions of numbers that may be text in a later sample."""

LOOKS_FOR = "files *.tar, *.tar.gz or *.tgz; or train-{000000..000012}.tar"

_MAX_KEYS = 256
_LOOKED_AT, _ELSEWHERE = 256, 16  # samples of the first shard, and of each of some others
_NUMBER = re.compile(rb"\s*[+-]?[0-9]{1,100}\s*")
_UNREAD = (".tar.zst", ".tzst", ".tar.lz4", ".tar.lzma", ".tar.z")
_NAME = re.compile(r"((?:.*/)?[^./]+)\.([^/]*)", re.DOTALL)
_UNKNOWN = ".bin"  # the extension of files that are no known image
_META = re.compile(r"__[^/]*__(/|$)")
_UNREADABLE = (ValueError, OverflowError, RecursionError)  # what decoders raise


def find(location: str, fields: Mapping[str, str]) -> Foreign | None:
    """See `recordzoo.formats`."""
    files = find_shards(location, TAR_ENDINGS)
    if not files and (unread := find_shards(location, _UNREAD)):
        raise SourceError(
            f"{unread[0]} is compressed in a way that is not read. Unpack it, or write it again as .tar.gz.",
            path=str(unread[0]),
        )
    return WebDataset(location, fields, files) if files else None


Looked = Mapping[str, tuple[bool, bool]]
"""Of each extension of a sample: whether its file holds what the extension says, and whether it is text."""


def _look(parts: Mapping[str, bytes]) -> Looked:
    return {
        key: (_works(_DECODERS.get(_last(key), bytes), data), _works(bytes.decode, data)) for key, data in parts.items()
    }


def _kind(key: str, looked: Sequence[Looked]) -> str:
    """Return how files of an extension are read: an extension that is decoded, "text" or "bytes".

    If none of the samples holds what an extension says (a pickle in ``npy``, a name in ``cls``), it is text if all
    are; otherwise bytes. Numbers of samples (``id``) are text if any of them is.
    """
    ending, found = _last(key), [parts[key] for parts in looked if key in parts]
    if ending not in _DECODERS:
        return "bytes"
    decoded = [is_decoded for is_decoded, _ in found]
    if all(decoded) or (any(decoded) and ending not in IDS):
        return ending
    return "text" if all(is_text for _, is_text in found) else "bytes"


def _images(keys: Iterable[str], looked: Sequence[Looked], named: Mapping[str, str]) -> list[str]:
    """Return the extensions that become the field "image": no sample has two of them.

    Args:
        keys: All extensions.
        looked: The samples that were looked at.
        named: Fields of extensions that the user named.
    """
    chosen = [key for key, field in named.items() if field == "image"]
    for key in keys:
        is_candidate = key in IMAGES and key not in named
        if is_candidate and not any(key in parts and not parts.keys().isdisjoint(chosen) for parts in looked):
            chosen.append(key)
    return chosen


class WebDataset(Foreign):
    """The samples of some tar files; each file is a piece.

    An extension that none of the first samples has is an error in a later one, unless the user named it.
    """

    format = "webdataset"

    def __init__(self, location: str, fields: Mapping[str, str], files: Sequence[Path]) -> None:
        super().__init__(location, fields)
        self.pieces = shard_pieces(files, TAR_ENDINGS)
        keys: dict[str, None] = {}
        names: list[str] = []
        looked: list[Looked] = []
        there = first_of(self.pieces, lambda piece: samples(piece.files[0]), most=_LOOKED_AT, elsewhere=_ELSEWHERE)
        for piece, (name, parts) in there:
            keys |= dict.fromkeys(parts)
            names.append(f"{name}.{next(iter(parts))}")
            looked.append(_look(parts))
            if len(keys) > _MAX_KEYS:
                text = f": its samples have more than {_MAX_KEYS} different extensions, so it is no WebDataset."
                raise fault(piece.files[0], text)
        if missing := [key for key in fields if key not in keys]:
            keys |= dict.fromkeys(sorted(_search(files, set(missing))))
        self.check_fields(list(keys))
        self._kinds = {key: _kind(key, looked) for key in keys}
        images = _images(keys, looked, self.fields)
        if keys and not fields and not images and set(self._kinds.values()) == {"bytes"}:
            raise SourceError(
                f"{location} is no WebDataset: none of its samples has an image, a text or a number, only files that "
                f"end in {', '.join(sorted(keys))}. If it is one, name a field: --field ENDING=image "
                "(fields={ENDING: 'image'}).",
                path=location,
            )
        are_alone = all(len(parts) == 1 and not IMAGES.isdisjoint(parts) for parts in looked)
        if names and not fields and are_alone and all("/" in name for name in names):
            ending = next(iter(keys))
            raise SourceError(
                f"{location} has images in folders, such as {names[-1]}, and nothing else. If the folders are "
                f"classes, unpack it, or pack it as a zip; if not, name a field: --field {ending}=image "
                f"(fields={{{ending!r}: 'image'}}).",
                path=location,
            )
        self._fields = self._named(keys, images)
        stored = {self._fields[key]: stored_as(key, kind) for key, kind in self._kinds.items()}
        self.kinds = {name: kind for name, kind in stored.items() if kind and name != "name"}

    def _named(self, keys: Iterable[str], images: Iterable[str]) -> dict[str, str]:
        """Return the field of each extension: image and target first."""
        usual = {**dict.fromkeys(images, "image"), "cls": "target"}
        if "target" in self.fields.values():
            del usual["cls"]
        found = {key: self.field(key, usual) for key in keys}
        order = {"image": 0, "target": 1}
        return dict(sorted(found.items(), key=lambda item: order.get(item[1], 2)))

    @override
    def read(self, piece: Piece) -> Iterator[Sample]:
        (path,) = piece.files
        seen = set()
        for key, parts in samples(path):
            if key in seen:
                raise fault(
                    path,
                    f", sample {key!r}: its files do not follow each other, or there are two of this name. Write "
                    "the tar again with sorted names (tar --sort=name).",
                )
            seen.add(key)
            values, ending = self._values(parts, f"{path}, sample {key!r}")
            yield Sample.of(values, f"{key}.{ending}" if ending else key)

    # Any: values of all kinds.
    def _values(self, parts: Mapping[str, bytes], where: str) -> tuple[dict[str, Any], str]:
        """Return the fields of a sample (None for a missing file), and the suffix of its image."""
        values: dict[str, Any] = dict.fromkeys(self._fields.values())
        origin: dict[str, str] = {}
        for key, data in parts.items():
            name = self._fields.get(key)
            if name is None:
                raise SourceError(
                    f"{where}: it has a file .{key}, which none of the first samples has. Name a field for it: "
                    f"--field {key}=FIELD (fields={{{key!r}: ...}})."
                )
            if name in origin:
                raise SourceError(
                    f"{where}: .{origin[name]} and .{key} would both be the field {name!r}. Name another for one of "
                    f"them: --field {key}=FIELD (fields={{{key!r}: ...}})."
                )
            origin[name] = key
            kind = self._kinds[key]
            try:
                values[name] = data if kind == "bytes" else _DECODERS[kind](data)
            except _UNREADABLE as err:
                raise SourceError(f"{where}: .{key} cannot be read: {err}.") from err
        return values, origin.get("image", "")


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def _works(function: Callable[[bytes], object], data: bytes) -> bool:
    try:
        function(data)
    except _UNREADABLE:
        return False
    return True


def samples(path: Path) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield the key of each sample of a shard, and its files by their extensions, in small letters."""
    current, parts = "", dict[str, bytes]()
    for key, extension, member in _files(path):
        if parts and key != current:
            yield current, parts
            parts = {}
        current = key
        if extension in parts:
            raise fault(path, f", sample {key!r}: it has two files .{extension}.")
        if member.size_bytes > MAX_MEMBER_BYTES:
            raise fault(path, f": {member.name} has {member.size_bytes:,} bytes; {MAX_MEMBER_BYTES:,} are the limit.")
        parts[extension] = member.read()
    if parts:
        yield current, parts


def _files(path: Path) -> Iterator[tuple[str, str, Member]]:
    """Yield the files of samples in a shard: key, extension, member. Files without an extension are skipped."""
    for member in archive_members(path, is_strict=True):
        match = _NAME.fullmatch(member.name)
        if match is not None and not _META.match(member.name):
            yield match[1], match[2].lower(), member


def _search(files: Sequence[Path], wanted: set[str]) -> set[str]:
    """Return the given extensions that exist; reads shards until each is found."""
    found: set[str] = set()
    for path in files:
        if found == wanted:
            break
        found |= {extension for _, extension, _ in _files(path) if extension in wanted}
    return found


def stored_as(name: str, kind: str) -> str:
    """Return the kind of values, as in `convert`; "" for numbers and arrays, whose kind follows from the values.

    Args:
        name: The extension.
        kind: How its files are read: an extension that is decoded, "text" or "bytes".
    """
    if kind == "bytes":
        return "image" if _last(name) in IMAGES else "bytes"
    return "json" if _DECODERS[kind] in (bytes.decode, as_json) else ""


def as_number(data: bytes) -> int:
    """Return a whole number in decimal digits.

    Raises:
        ValueError: It is none.
    """
    if not _NUMBER.fullmatch(data):
        raise ValueError(f"{data[:40]!r} is no whole number")
    return int(data)


# Any: whatever JSON has.
def as_json(data: bytes) -> Any:
    """Parse JSON; NaN and Infinity, which only Python writes, become None."""
    return json.loads(data, parse_constant=lambda name: None)


# Any: of any numeric dtype.
def as_npy(data: bytes) -> NDArray[Any]:
    """Return an array that `numpy.save` wrote, without copying it. Nothing is allocated for a forged shape.

    Raises:
        ValueError: It is not an array, or its dtype is `object` (pickles) or one that record sets lack.
        OverflowError: Its shape is forged.
    """
    header = header_of(data)
    num_bytes = math.prod(header.shape) * header.dtype.itemsize
    if header.dtype.kind not in "biuf" or header.dtype.itemsize > 8 or num_bytes != len(data) - header.size_bytes:
        values = f"{header.dtype} of shape {list(header.shape)} in {len(data) - header.size_bytes:,} bytes"
        raise ValueError(f"it is no array of numbers that is read here: {values}")
    return array_of(data, header)


# Any: numbers, arrays, text or JSON. WebDataset's own decoding is the model (autodecode.py), without its pickles.
_DECODERS: Mapping[str, Callable[[bytes], Any]] = {
    **dict.fromkeys(("cls", "cls2", "class", "count", "index", "inx", "id"), as_number),
    **dict.fromkeys(("txt", "text", "transcript"), bytes.decode),
    **dict.fromkeys(("json", "jsn"), as_json),
    "npy": as_npy,
}


def write_webdataset(folder: Path, export: Export) -> None:
    """Write ``train-000000.tar``, ``train-000001.tar``, ..."""
    write_classes(folder, export.content)
    for split, positions in export.splits.items():
        taken = set[str]()
        for number, some in enumerate(export.shards(positions)):
            path = folder / f"{split or 'data'}-{number:06d}.tar"
            with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
                for sample in export.read(some):
                    parts = [file_name(part) for part in split_ending(sample.name)[0].split("/") if part] or ["_"]
                    parts[-1] = parts[-1].replace(".", "_")  # a key ends at the first dot
                    key = choose(taken, "/".join(parts), file_name("_".join(parts)))
                    for ending, data in _files_of(sample, export.content):
                        entry = tarfile.TarInfo(f"{key}{ending}")
                        entry.size = len(data)
                        archive.addfile(entry, io.BytesIO(data))


def _files_of(sample: ExportSample, content: Content) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a sample: ending and bytes."""
    yield sample.ending or _UNKNOWN, sample.image
    if sample.label is not None:
        yield ".cls", str(sample.label).encode()
    about = {"name": sample.name, **({"class": content.class_name(sample.label)} if content.classes else {})}
    for field in content.fields:
        value = sample.fields[field.name]
        if field.kind in ("json", "numbers", "raw") and not field.shape:
            about[field.name] = value
        elif value is None:
            continue
        elif field.shape:
            buffer = io.BytesIO()
            np.save(buffer, value, allow_pickle=False)
            yield f".{field.name}.npy", buffer.getvalue()
        else:
            yield f".{field.name}{(field.kind == 'image' and sniffed_ending(value)) or _UNKNOWN}", value
    yield ".json", json_bytes(about)
