"""`info PATH`: the contents and the origin of a record set."""

import contextlib
import dataclasses
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.progress import Progress, SilentProgress, format_bytes
from recordzoo.base.settings import command
from recordzoo.base.text import JSON, clean, display_width
from recordzoo.cli import options
from recordzoo.cli.app import Exit
from recordzoo.errors import ArgumentError, CorruptRecordError, RecordError
from recordzoo.images.decode import open_picture, picture_field, with_value
from recordzoo.preparing.changes import KnownTree, recorded_changes
from recordzoo.preparing.preparation import MOST_NAMED
from recordzoo.recipes.recipe import quiet
from recordzoo.records.kinds import SetKind
from recordzoo.records.manifest import NO_SHARD, Manifest
from recordzoo.records.reader import Labels, RecordReader, is_record_set, load_labels

SAMPLE = 2000
"""Number of images read by default."""

SAMPLE_AT_URL = 200
"""The same at a URL, where each image is fetched whole."""

_CHUNK = 256
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # of raw pixels, by their channels


@dataclass(frozen=True)
class ClassCount:
    """The number of records of a class."""

    number: int
    name: str
    count: int


def count_classes(labels: Labels) -> list[ClassCount]:
    """Count the records of each class, in label order; classes without records are there too."""
    numbers, counts = np.unique(labels.numbers, return_counts=True)
    found = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
    every = sorted({*found, *range(len(labels.names))})
    return [ClassCount(number, labels.name(number), found.get(number, 0)) for number in every]


@dataclass(frozen=True)
class Bytes:
    """Sizes of the parts of a record set.

    Attributes:
        blobs: The stored values of each blob field; a value that several records share counts once.
        shards: The shard files: all values, and LMDB's overhead.
        arrays: The array files: indices, names, splits and array fields.
        shared: The shard files that other record sets share, by hard links.
    """

    blobs: Mapping[str, int]
    shards: int
    arrays: int
    shared: int = 0

    @property
    def total(self) -> int:
        """All files but the manifest."""
        return self.shards + self.arrays

    @property
    def overhead(self) -> int:
        """All bytes that are not stored values."""
        return self.total - sum(self.blobs.values())


def count_bytes(reader: RecordReader) -> Bytes:
    """Add up the bytes of a record set.

    Raises:
        CorruptRecordError: An index is damaged.
    """
    manifest, shared = reader.manifest, 0
    for shard in manifest.shards if isinstance(reader.path, Path) else ():
        with contextlib.suppress(OSError):  # `verify` reports missing files
            facts = (reader.folder / shard.name).stat()
            shared += facts.st_size if facts.st_nlink > 1 else 0
    return Bytes(
        {name: _stored_bytes(reader, name) for name in manifest.blobs},
        sum(shard.size_bytes for shard in manifest.shards),
        sum(array.size_bytes for array in manifest.arrays.values()),
        shared,
    )


def count_values(reader: RecordReader, field: str) -> int:
    """Return the number of records with a value in a blob field."""
    return int((reader.array(f"{field}.index")["shard"] != NO_SHARD).sum())


def _stored_bytes(reader: RecordReader, field: str) -> int:
    index = reader.array(f"{field}.index")
    index = index[index["shard"] != NO_SHARD]
    place = index["shard"].astype(np.uint64) << np.uint64(32) | index["slot"]
    _, first = np.unique(place, return_index=True)
    return int(index["length"][first].astype(np.int64).sum())


@dataclass(frozen=True)
class VariantStats:
    """Another record set of the same dataset, beside this one."""

    path: Path
    name: str
    num_records: int


def find_variants(reader: RecordReader) -> list[VariantStats]:
    """Find the record sets beside this one that hold the same dataset in another way, sorted by path."""
    found: list[VariantStats] = []
    if not isinstance(reader.path, Path):  # what lies beside a URL is not listed
        return found
    for path in sorted(reader.path.parent.glob("*.records")):
        if path == reader.path or not is_record_set(path):
            continue
        try:
            manifest = RecordReader(path).manifest
        except RecordError:  # a neighbour that is damaged says nothing about this one
            continue
        if manifest.variant != reader.manifest.variant and _is_same_dataset(manifest, reader.manifest):
            found.append(VariantStats(path, manifest.variant, manifest.num_records))
    return found


def _is_same_dataset(one: Manifest, other: Manifest) -> bool:
    if (one.kind, one.dataset, one.part) != (other.kind, other.dataset, other.part):
        return False
    # users' trees have one dataset name; the names of their records differ
    return one.kind is SetKind.ZOO or one.arrays["names"].hash == other.arrays["names"].hash


def spread(values: Sequence[int]) -> tuple[int, float, int]:
    """Return the smallest, the median and the largest of some numbers, at least one."""
    array = np.asarray(values)
    return int(array.min()), float(np.median(array)), int(array.max())


@dataclass
class Headers:
    """Images counted by format ("raw" for pixels), mode and (width, height); and the names of those with a problem.

    No decoder recognises the unreadable ones; of the damaged ones the stored bytes have changed.
    """

    num_images: int
    num_looked_at: int
    formats: Counter[str] = field(default_factory=Counter)
    modes: Counter[str] = field(default_factory=Counter)
    sizes: Counter[tuple[int, int]] = field(default_factory=Counter)
    unreadable: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)


def read_headers(
    reader: RecordReader, field_name: str, progress: Progress, *, sample: int | None = SAMPLE, seed: int = 0
) -> Headers:
    """Read the headers of `sample` images, chosen at random by `seed`; of all for None. No pixel is decoded.

    Raw pixels have one size, which is known without reading.

    Raises:
        CorruptRecordError: The index or another array is damaged; a damaged image is noted.
    """
    positions = with_value(reader, field_name, np.arange(len(reader)))
    if reader.manifest.blobs[field_name].encoding == "raw":
        return _raw_headers(reader, field_name, positions)
    count = len(positions)
    if sample is not None and count > sample:
        positions = np.sort(np.random.default_rng(seed).permutation(positions)[:sample])
    headers = Headers(count, len(positions))
    progress.begin("reading headers", int(reader.lengths(field_name)[positions].sum()))
    with quiet():
        for position in _hinted(reader, field_name, positions.tolist()):
            _read_header(reader, field_name, position, headers)
            progress.advance(int(reader.lengths(field_name)[position]), 1)
    progress.end()
    return headers


def _hinted(reader: RecordReader, field_name: str, positions: list[int]) -> Iterator[int]:
    """Give the positions one by one; the disk reads a few hundred ahead."""
    for start in range(0, len(positions), _CHUNK):
        reader.hint(field_name, positions[start : start + _CHUNK])
        yield from positions[start : start + _CHUNK]


def _read_header(reader: RecordReader, field_name: str, position: int, headers: Headers) -> None:
    try:
        image = open_picture(reader, position, field_name)
        headers.formats[image.format or "raw"] += 1
        headers.modes[image.mode] += 1
        headers.sizes[image.size] += 1
    except CorruptRecordError:
        headers.damaged.append(reader.names[position])
    except Exception:  # noqa: BLE001 - decoders raise anything, also for headers
        headers.unreadable.append(reader.names[position])


def _raw_headers(reader: RecordReader, field_name: str, positions: NDArray[np.int64]) -> Headers:
    shape = reader.manifest.blobs[field_name].shape
    count = len(positions)
    headers = Headers(count, count)
    if not count:
        return headers
    headers.formats["raw"] = count
    shapes = reader.array(f"{field_name}.shape")[positions] if shape is None else np.array([shape])
    different, counts = np.unique(shapes, axis=0, return_counts=True)
    for found, number in zip(different.tolist(), counts.tolist(), strict=True):
        times = number if shape is None else count
        height, width, channels = (*found, 1)[:3]
        headers.sizes[width, height] += times
        headers.modes[_MODES.get(channels, "?")] += times
    return headers


_ALL_CLASSES = 20  # most classes that are charted in full
_MOST_FREQUENT, _LEAST_FREQUENT = 10, 5
_SIZES_SHOWN = 4
_NAMES_SHOWN = 5
_MOST_METADATA = 1000  # characters; a line shows fewer


def show_record_set(path: str, *, full: bool, as_json: bool) -> int:
    """Print the contents of a record set; return the exit code. `full` reads the headers of all images."""
    found = options.find_record_set(path)
    reader = RecordReader(found, cache_bytes=0)  # at a URL: only these files are fetched
    headers = _headers(reader, full=full)
    changes = recorded_changes(reader)
    document = {"path": str(found), **set_document(reader, headers), "changes": list(changes.found[:MOST_NAMED])}
    if as_json:
        options.put_json({"record_set": document})
    else:
        options.put(options.wrapped("\n".join(_lines(reader, headers, document)), options.wrapping_width()))
        options.say_changes(reader, changes)
    if headers is None or not headers.damaged:
        return Exit.OK
    options.say(
        f"error: {len(headers.damaged):,} of {headers.num_looked_at:,} images that were looked at are damaged. "
        f"Run: {command('verify', '--full', reader.path)}"
    )
    return Exit.CORRUPT


def set_document(reader: RecordReader, headers: Headers | None) -> dict[str, JSON]:
    """Make a record set's JSON, under stable keys."""
    manifest = reader.manifest
    labels, tree = load_labels(reader), KnownTree.of(reader)
    sizes = count_bytes(reader)
    return {
        "digest": reader.digest,
        "kind": manifest.kind,
        "dataset": manifest.dataset,
        "part": manifest.part,
        "variant": manifest.variant,
        "records": manifest.num_records,
        "classes": None if manifest.classes is None else len(manifest.classes),
        "splits": dict(manifest.splits),
        "fields": {name: spec.kind for name, spec in manifest.fields.items()},
        "default_target": manifest.default_target,
        "shards": len(manifest.shards),
        "size_bytes": sizes.total,
        "bad": _number(manifest.metadata.get("num_bad"), manifest.bad),
        "skipped": _number(manifest.metadata.get("num_skipped"), manifest.skipped),
        "raw_files": [dataclasses.asdict(file) for file in manifest.raw_files],
        "blobs": {
            name: {
                "encoding": spec.encoding,
                "dtype": spec.dtype or None,
                "shape": spec.shape,
                "values": count_values(reader, name),
                "bytes": sizes.blobs[name],
            }
            for name, spec in manifest.blobs.items()
        },
        "arrays": {
            name: {"dtype": manifest.arrays[name].dtype, "shape": manifest.arrays[name].shape}
            for name in reader.columns
        },
        "bytes": {
            "values": sum(sizes.blobs.values()),
            "shards": sizes.shards,
            "arrays": sizes.arrays,
            "overhead": sizes.overhead,
            "shared": sizes.shared,
        },
        "class_counts": None if labels is None else [dataclasses.asdict(each) for each in count_classes(labels)],
        "images": None if headers is None else _headers_document(headers),
        "source": manifest.source,
        "tree": None if tree is None else tree.root,
        "metadata": dict(manifest.metadata),
        "variants": [
            {"path": str(each.path), "variant": each.name, "records": each.num_records}
            for each in find_variants(reader)
        ],
    }


def _headers_document(headers: Headers) -> dict[str, JSON]:
    widths, heights = _sides(headers)
    return {
        "total": headers.num_images,
        "looked_at": headers.num_looked_at,
        "formats": dict(headers.formats.most_common()),
        "modes": dict(headers.modes.most_common()),
        "width": _spread_document(widths),
        "height": _spread_document(heights),
        "most_common_sizes": [
            {"width": width, "height": height, "count": count}
            for (width, height), count in headers.sizes.most_common(_SIZES_SHOWN)
        ],
        "unreadable": len(headers.unreadable),
        "damaged": headers.damaged,
    }


def _spread_document(values: Sequence[int]) -> dict[str, JSON] | None:
    return dict(zip(("min", "median", "max"), spread(values), strict=True)) if values else None


def _sides(headers: Headers) -> tuple[list[int], list[int]]:
    every = list(headers.sizes.elements())
    return [width for width, _ in every], [height for _, height in every]


def _headers(reader: RecordReader, *, full: bool) -> Headers | None:
    try:
        field = picture_field(reader)
    except ArgumentError:  # it holds no images
        return None
    if full:
        return read_headers(reader, field, options.make_progress(), sample=None)
    sample = SAMPLE if isinstance(reader.path, Path) else SAMPLE_AT_URL
    return read_headers(reader, field, SilentProgress(), sample=sample)


def _lines(reader: RecordReader, headers: Headers | None, document: Mapping[str, JSON]) -> list[str]:
    manifest, width = reader.manifest, options.wrapping_width() or 80
    labels = load_labels(reader)
    counts = ", ".join(f"{split} {count:,}" for split, count in manifest.splits.items())
    shards = f"{len(manifest.shards):,} shard{'' if len(manifest.shards) == 1 else 's'}"
    lines = [
        f"record set of {manifest.title}, {manifest.variant}",
        f"records:   {manifest.num_records:,}",
        f"splits:    {counts or '-'}",
        f"classes:   {'-' if manifest.classes is None else f'{len(manifest.classes):,}'}",
        f"size:      {format_bytes(document['size_bytes'])} in {shards}",
        f"bad:       unreadable images: {document['bad']:,} kept, {document['skipped']:,} skipped",
        f"digest:    {reader.digest}",
        "",
        "fields:",
        *_indented(_field_table(document)),
        "",
    ]
    if labels is not None:
        lines += [*_class_lines(count_classes(labels), width), ""]
    if headers is not None and headers.num_images:
        lines += [*_image_lines(headers), ""]
    return [*lines, *_byte_lines(document), "", *_origin_lines(document, width)]


def _field_table(document: Mapping[str, JSON]) -> str:
    rows = []
    for name, blob in document["blobs"].items():
        kind = _kind(blob["encoding"], blob["dtype"], blob["shape"])
        rows.append((name, kind, f"{blob['values']:,}", format_bytes(blob["bytes"])))
    for name, array in document["arrays"].items():
        size = math.prod(array["shape"]) * np.dtype(array["dtype"]).itemsize
        kind = _kind("", array["dtype"], array["shape"][1:])
        rows.append((name, kind, f"{document['records']:,}", format_bytes(size)))
    return options.table(("NAME", "KIND", "VALUES", "BYTES"), rows)


def _kind(encoding: str, dtype: str | None, shape: Sequence[int] | None) -> str:
    parts = (encoding, np.dtype(dtype).name if dtype else "", f"[{', '.join(map(str, shape))}]" if shape else "")
    return " ".join(filter(None, parts))


def _class_lines(classes: Sequence[ClassCount], width: int) -> list[str]:
    counts = [each.count for each in classes]
    if not counts:
        return ["records of each class: there are none"]
    low, median, high = spread(counts)
    if len(classes) <= _ALL_CLASSES:
        return ["records of each class:", *_indented(_chart(classes, width))]
    if low == high:
        return [f"records of each class: {low:,}, of all {len(classes):,} classes"]
    summary = f"min {low:,}, median {median:,g}, max {high:,} per class"
    order = sorted(classes, key=lambda each: (-each.count, each.number))
    chart = _chart([*order[:_MOST_FREQUENT], *order[-_LEAST_FREQUENT:]], width)
    between = f"... {len(classes) - _MOST_FREQUENT - _LEAST_FREQUENT:,} classes between"
    lines = [*chart[:_MOST_FREQUENT], between, *chart[_MOST_FREQUENT:]]
    return [f"records of each class ({len(classes):,} classes, {summary}):", *_indented(lines)]


def _chart(classes: Sequence[ClassCount], width: int) -> list[str]:
    rows = [(options.encodable(clean(each.name)), each.count) for each in classes]
    return options.bar_chart(rows, width - 2, blocks=options.has_blocks())


def _image_lines(headers: Headers) -> list[str]:
    looked_at, total = headers.num_looked_at, headers.num_images
    what = f"{total:,}" if looked_at == total else f"of {looked_at:,} sampled images of {total:,}; --full reads all"
    head = "images" if set(headers.formats) == {"raw"} else "images, from their headers"
    lines = [
        f"{head} ({what}):",
        f"  format:  {_counted(headers.formats)}",
        f"  mode:    {_counted(headers.modes)}",
    ]
    if headers.sizes:
        for name, values in zip(("width", "height"), _sides(headers), strict=True):
            low, median, high = spread(values)
            shown = f"{low:,}" if low == high else f"min {low:,}, median {median:,g}, max {high:,}"
            lines.append(f"  {name + ':':<8} {shown}")
        common = headers.sizes.most_common(_SIZES_SHOWN)
        if len(headers.sizes) > 1 and common[0][1] > 1:
            often = []
            for (width, height), count in common:
                percent = 100 * count / looked_at
                often.append(f"{width:,} x {height:,} ({f'{percent:.0f}%' if percent >= 1 else '<1%'})")
            lines.append(f"  often:   {', '.join(often)}")
    for name, found in (("unreadable", headers.unreadable), ("damaged", headers.damaged)):
        if found:
            more = ", ..." if len(found) > _NAMES_SHOWN else ""
            lines.append(f"  {name}: {len(found):,} ({', '.join(map(clean, found[:_NAMES_SHOWN]))}{more})")
    return lines


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.most_common()) or "-"


def _byte_lines(document: Mapping[str, JSON]) -> list[str]:
    sizes = document["bytes"]
    values, around = sizes["values"], sizes["shards"] - sizes["values"]
    share = f" ({100 * sizes['overhead'] / values:.1f}% more than the values alone)" if values else ""
    total, shared = document["size_bytes"], sizes["shared"]
    own = f"  shared:   {format_bytes(shared)} with other record sets (hard links), own: {format_bytes(total - shared)}"
    return [
        "bytes:",
        f"  values:   {format_bytes(values)}",
        f"  shards:   {format_bytes(sizes['shards'])}, overhead: {format_bytes(around)}",
        f"  arrays:   {format_bytes(sizes['arrays'])}: indices, names, splits and array fields",
        f"  in all:   {format_bytes(total)}{share}",
        *([own] if shared else []),
    ]


def _origin_lines(document: Mapping[str, JSON], width: int) -> list[str]:
    lines = ["came from:", f"  source:   {clean(document['source']) or '-'}"]
    if document["tree"] is not None:
        lines.append(f"  tree:     {clean(document['tree'])}")
    for file in document["raw_files"]:
        lines.append(
            f"  raw file: {clean(file['name'])}, {file['size_bytes']:,} bytes, {clean(file['hash'] or 'no hash')}"
        )
    lines += [f"  made of:  {line}" for line in _made_of(document["metadata"].get("made_of"))]
    for key, value in document["metadata"].items():
        if key == "made_of":
            continue
        text = clean(f"  metadata: {key} = {json.dumps(value, ensure_ascii=False)[:_MOST_METADATA]}")
        lines.append(text if display_width(text) <= width else options.shorten_end(text, width))
    if document["variants"]:
        lines += ["", "other variants beside it:"]
    for each in document["variants"]:
        lines.append(f"  {clean(each['path'])} ({clean(each['variant'])}), {each['records']:,} records")
    return lines


def _made_of(made_of: JSON) -> list[str]:
    """Say which sets a combined set was made from. The manifest is untrusted and may hold anything."""
    sets = made_of.get("sets") if isinstance(made_of, dict) else None
    lines = []
    for each in sets if isinstance(sets, list) else []:
        said = each if isinstance(each, dict) else {}
        chosen = said.get("chosen")
        taken = f"{chosen.get('records')} of " if isinstance(chosen, dict) else ""
        lines.append(clean(f"{said.get('name')}, {taken}{said.get('records')} records, digest {said.get('digest')}"))
    return lines


def _indented(lines: str | Sequence[str]) -> list[str]:
    return [f"  {line}" for line in (lines.splitlines() if isinstance(lines, str) else lines)]


def _number(noted: object, named: Mapping[str, str]) -> int:
    """Return a total from the manifest, which names only the first few."""
    return noted if isinstance(noted, int) else len(named)
