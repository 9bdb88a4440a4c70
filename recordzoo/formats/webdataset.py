"""WebDataset: tar shards in which the files of a sample follow each other and share their name up to the first dot.

How a name is split, and which files belong to no sample: webdataset/tariterators.py (`base_plus_ext`, `skip_meta`,
`group_by_keys`).
"""

import io
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from recordzoo.errors import SourceError
from recordzoo.formats.base import Foreign, Piece, Sample, fault
from recordzoo.formats.folder import write_classes
from recordzoo.formats.naming import choose, file_name, split_ending
from recordzoo.formats.samples import Content, Export, ExportSample, json_bytes
from recordzoo.formats.sets import TAR_ENDINGS, find_shards, shard_pieces
from recordzoo.formats.tar_keys import Keys, as_text, decode, look, stored_as
from recordzoo.raw.archive import ArchiveUnit
from recordzoo.raw.member import MAX_MEMBER_BYTES, Member
from recordzoo.recipes.images import sniffed_ending

LOOKS_FOR = "files *.tar, *.tar.gz or *.tgz; or train-{000000..000012}.tar"

_UNREAD = (".tar.zst", ".tzst", ".tar.lz4", ".tar.lzma", ".tar.z")
_NAME = re.compile(r"((?:.*/)?[^./]+)\.([^/]*)", re.DOTALL)
_UNKNOWN = ".bin"  # the extension of files that are no known image
_META = re.compile(r"__[^/]*__(/|$)")


def find(location: str, fields: Mapping[str, str]) -> Foreign | None:
    """See `Format`."""
    files = find_shards(location, TAR_ENDINGS)
    if not files and (unread := find_shards(location, _UNREAD)):
        raise SourceError(
            f"{unread[0]} is compressed in a way that is not read. Unpack it, or write it again as .tar.gz.",
            path=str(unread[0]),
        )
    return WebDataset(location, fields, files) if files else None


class WebDataset(Foreign):
    """The samples of some tar files; each file is a piece.

    An extension that none of the first samples has is an error in a later one, unless the user named it.
    """

    format = "webdataset"

    def __init__(self, location: str, fields: Mapping[str, str], files: Sequence[Path]) -> None:
        super().__init__(location, fields)
        self.pieces = shard_pieces(files, TAR_ENDINGS)
        keys, self._seen = look(samples, files)
        if missing := [key for key in fields if key not in keys.names]:
            keys.add(_search(files, set(missing)))
        self.check_fields(keys.names)
        self._kinds = keys.kinds()
        if keys.names and not fields and not keys.images({}) and set(self._kinds.values()) == {"bytes"}:
            raise SourceError(
                f"{location} is no WebDataset: none of its samples has an image, a text or a number, only files that "
                f"end in {', '.join(sorted(keys.names))}. If it is one, name a field: --field ENDING=image "
                "(fields={ENDING: 'image'}).",
                path=location,
            )
        self._fields = self._named(keys)
        stored = {self._fields[key]: stored_as(key, kind) for key, kind in self._kinds.items()}
        self.kinds = {name: kind for name, kind in stored.items() if kind and name != "name"}

    def _named(self, keys: Keys) -> dict[str, str]:
        """Return the field of each extension: image and target first."""
        usual = {**dict.fromkeys(keys.images(self.fields), "image"), "cls": "target"}
        if "target" in self.fields.values():
            del usual["cls"]
        found = {key: self.field(key, usual) for key in keys.names}
        order = {"image": 0, "target": 1}
        return dict(sorted(found.items(), key=lambda item: order.get(item[1], 2)))

    # Any: what pickle keeps.
    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_seen": []}

    @override
    def first(self) -> list[tuple[Piece, Sample]]:
        seen, self._seen = self._seen, []
        return [(self.pieces[number], self._sample(self.pieces[number].files[0], *each)) for number, each in seen]

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
            yield self._sample(path, key, parts)

    def _sample(self, path: Path, key: str, parts: Mapping[str, bytes]) -> Sample:
        values, ending = self._values(parts, f"{path}, sample {key!r}")
        return {"name": f"{key}.{ending}" if ending else key, **values}

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
            values[name] = self._value(key, data, where)
        return values, origin.get("image", "")

    # Any: as above.
    def _value(self, key: str, data: bytes, where: str) -> Any:
        kind = self._kinds[key]
        if kind == "bytes":
            return data
        try:
            return as_text(data) if kind == "text" else decode(kind, data)
        except ValueError as err:
            raise SourceError(f"{where}: .{key} cannot be read: {err}.") from err


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
    for member in ArchiveUnit(path, 0, "", is_strict=True).members():
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
    about = {"name": sample.name, **({"class": sample.class_name} if content.classes else {})}
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
