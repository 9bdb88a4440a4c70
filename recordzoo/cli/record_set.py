"""Commands on one record set: `info PATH`, what it holds and came from; `show`, its images; `verify`, its damage."""

import contextlib
import dataclasses
import io
import json
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
from PIL import PngImagePlugin

from recordzoo.base.files import read_small, replace_file
from recordzoo.base.progress import Progress, SilentProgress, format_bytes
from recordzoo.base.settings import command
from recordzoo.base.text import JSON, clean, counted, display_width, shorten
from recordzoo.cli import options
from recordzoo.cli.app import Exit
from recordzoo.errors import ArgumentError, CorruptRecordError, RecordError, RemoteError
from recordzoo.images.decode import open_picture, picture_field, with_value
from recordzoo.net.url import Url, is_url
from recordzoo.preparing.changes import find_changes, tree_of
from recordzoo.preparing.preparation import MOST_NAMED
from recordzoo.preview import BOX, Thumbnail, choose, draw_sheet, make_thumbnail
from recordzoo.recipes.recipe import quiet
from recordzoo.records.arrays import AnyArray
from recordzoo.records.manifest import MANIFEST_NAME, NO_SHARD, SetKind
from recordzoo.records.reader import Labels, RecordReader, is_record_set, load_labels
from recordzoo.records.verify import Report
from recordzoo.records.verify import verify as check
from recordzoo.records.writer import BESIDE, COPIED_FILE
from recordzoo.zoo import how_to_remake

SAMPLE = 2000
"""Number of images whose headers `info` reads by default."""

SAMPLE_AT_URL = 200
"""The same at a URL, where each image is fetched whole."""

_ALL_CLASSES = 20  # most classes that are all named
_SIZES_SHOWN = 4
_NAMES_SHOWN = 5
_MOST_METADATA = 1000  # characters; a line shows fewer
MAX_PROBLEMS_SHOWN = 50

GENERATOR = "recordzoo show"

_CHUNK = 256


def show_record_set(path: str, *, full: bool, as_json: bool) -> int:
    """Print the contents of a record set; return the exit code. `full` reads the headers of all images."""
    found = options.find_record_set(path)
    reader = RecordReader(found, cache_bytes=0)  # at a URL: only these files are fetched
    headers = _headers(reader, full=full)
    changes = find_changes(reader)
    document = {"path": str(found), **_set_document(reader, headers), "changes": list(changes.found[:MOST_NAMED])}
    if as_json:
        options.put_json({"record_set": document})
    else:
        options.put("\n".join(_lines(reader, headers, document)))
        options.say_changes(reader, changes)
    if headers is None or not headers.damaged:
        return Exit.OK
    options.say(
        f"error: {counted(len(headers.damaged), 'image is', 'images are')} damaged, of {headers.num_looked_at:,} "
        f"looked at. Run: {command('verify', '--full', reader.path)}"
    )
    return Exit.CORRUPT


def _set_document(reader: RecordReader, headers: "Headers | None") -> dict[str, JSON]:
    """Make a record set's JSON, under stable keys."""
    manifest = reader.manifest
    labels = load_labels(reader)
    stored = {name: stored_bytes(reader, name) for name in manifest.blobs}
    values = sum(stored.values())
    shards = sum(shard.size_bytes for shard in manifest.shards)
    arrays = sum(array.size_bytes for array in manifest.arrays.values())
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
        "size_bytes": shards + arrays,
        "bad": manifest.count("bad"),
        "skipped": manifest.count("skipped"),
        "raw_files": [dataclasses.asdict(file) for file in manifest.raw_files],
        "blobs": {
            name: {
                "encoding": spec.encoding,
                "dtype": spec.dtype or None,
                "shape": spec.shape,
                "values": len(_index(reader, name)),
                "bytes": stored[name],
            }
            for name, spec in manifest.blobs.items()
        },
        "arrays": {
            name: {"dtype": manifest.arrays[name].dtype, "shape": manifest.arrays[name].shape}
            for name in reader.columns
        },
        "bytes": {
            "values": values,
            "shards": shards,
            "arrays": arrays,
            "overhead": shards + arrays - values,
            "shared": _shared_bytes(reader),
        },
        "class_counts": None if labels is None else count_classes(labels),
        "images": None if headers is None else _headers_document(headers),
        "source": manifest.source,
        "tree": tree_of(reader)[0] or None,
        "metadata": dict(manifest.metadata),
    }


def count_classes(labels: Labels) -> list[dict[str, JSON]]:
    """Count the records of each class, in label order; classes without records are there too."""
    numbers, counts = np.unique(labels.numbers, return_counts=True)
    found = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
    every = sorted({*found, *range(len(labels.names))})
    return [{"number": number, "name": labels.name(number), "count": found.get(number, 0)} for number in every]


def stored_bytes(reader: RecordReader, field: str) -> int:
    """Add up the stored values of a blob field; a value that several records share counts once.

    Raises:
        CorruptRecordError: The index is damaged.
    """
    index = _index(reader, field)
    place = index["shard"].astype(np.uint64) << np.uint64(32) | index["slot"]
    _, first = np.unique(place, return_index=True)
    return int(index["length"][first].astype(np.int64).sum())


def _index(reader: RecordReader, field: str) -> AnyArray:
    """Return the rows of a blob field's index that have a value."""
    index = reader.array(f"{field}.index")
    found: AnyArray = index[index["shard"] != NO_SHARD]
    return found


def _shared_bytes(reader: RecordReader) -> int:
    """Add up the shard files that other record sets share, by hard links."""
    shared = 0
    for shard in reader.manifest.shards if isinstance(reader.path, Path) else ():
        with contextlib.suppress(OSError):  # `verify` reports missing files
            facts = (reader.folder / shard.name).stat()
            shared += facts.st_size if facts.st_nlink > 1 else 0
    return shared


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

    Raises:
        CorruptRecordError: The index or another array is damaged; a damaged image is noted.
    """
    positions = with_value(reader, field_name, np.arange(len(reader)))
    count = len(positions)
    if sample is not None and count > sample:
        positions = np.sort(np.random.default_rng(seed).permutation(positions)[:sample])
    headers = Headers(count, len(positions))
    progress.begin("reading headers", int(reader.lengths(field_name)[positions].sum()))
    with quiet():
        for start in range(0, len(positions), _CHUNK):
            some = positions[start : start + _CHUNK].tolist()
            reader.hint(field_name, some)
            for position in some:
                _read_header(reader, field_name, position, headers)
                progress.advance(int(reader.lengths(field_name)[position]), 1)
    progress.end()
    return headers


def _read_header(reader: RecordReader, field_name: str, position: int, headers: Headers) -> None:
    try:
        image = open_picture(reader, position, field_name)
        headers.formats[image.format or "raw"] += 1
        headers.modes[image.mode] += 1
        headers.sizes[image.size] += 1
    except CorruptRecordError:
        headers.damaged.append(reader.names[position])
    except RemoteError:  # it tells nothing of the image
        raise
    except Exception:  # noqa: BLE001 - decoders raise anything, also for headers
        headers.unreadable.append(reader.names[position])


def _headers_document(headers: Headers) -> dict[str, JSON]:
    every = list(headers.sizes.elements())
    return {
        "total": headers.num_images,
        "looked_at": headers.num_looked_at,
        "formats": dict(headers.formats.most_common()),
        "modes": dict(headers.modes.most_common()),
        "width": _spread([width for width, _ in every]),
        "height": _spread([height for _, height in every]),
        "most_common_sizes": [
            {"width": width, "height": height, "count": count}
            for (width, height), count in headers.sizes.most_common(_SIZES_SHOWN)
        ],
        "unreadable": len(headers.unreadable),
        "damaged": headers.damaged,
    }


def _spread(values: Sequence[int]) -> dict[str, JSON] | None:
    if not values:
        return None
    return {"min": min(values), "median": float(np.median(values)), "max": max(values)}


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
    counts = ", ".join(f"{split} {count:,}" for split, count in manifest.splits.items())
    lines = [
        f"record set of {manifest.title}, {manifest.variant}",
        f"records:   {manifest.num_records:,}",
        f"splits:    {counts or '-'}",
        f"classes:   {'-' if manifest.classes is None else f'{len(manifest.classes):,}'}",
        f"size:      {format_bytes(document['size_bytes'])} in {counted(len(manifest.shards), 'shard')}",
        f"bad:       unreadable images: {document['bad']:,} kept, {document['skipped']:,} skipped",
        f"digest:    {reader.digest}",
        "",
        "fields:",
        *_indented(_field_table(document)),
        "",
    ]
    if document["class_counts"] is not None:
        lines += [*_class_lines(document["class_counts"], width), ""]
    if headers is not None and headers.num_images:
        lines += [*_image_lines(document["images"], headers.unreadable), ""]
    return [*lines, *_origin_lines(document, width)]


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


def _class_lines(classes: Sequence[Mapping[str, JSON]], width: int) -> list[str]:
    spread = _spread([each["count"] for each in classes])
    if spread is None:
        return ["records of each class: there are none"]
    if len(classes) > _ALL_CLASSES:
        return [f"records of each class: {_shown(spread)}, of {len(classes):,} classes"]
    rows = [(shorten(clean(each["name"]), width // 2), f"{each['count']:,}") for each in classes]
    return ["records of each class:", *_indented(options.table(("NAME", "RECORDS"), rows))]


def _shown(spread: Mapping[str, JSON]) -> str:
    if spread["min"] == spread["max"]:
        return f"{spread['min']:,}"
    return f"min {spread['min']:,}, median {spread['median']:,g}, max {spread['max']:,}"


def _image_lines(images: Mapping[str, JSON], unreadable: Sequence[str]) -> list[str]:
    looked_at, total = images["looked_at"], images["total"]
    what = f"{total:,}" if looked_at == total else f"of {looked_at:,} sampled images of {total:,}; --full reads all"
    head = "images" if set(images["formats"]) == {"raw"} else "images, from their headers"
    lines = [f"{head} ({what}):"]
    for name in ("format", "mode"):
        counts = ", ".join(f"{each} {count:,}" for each, count in images[f"{name}s"].items())
        lines.append(f"  {name + ':':<8} {counts or '-'}")
    for name in ("width", "height"):
        if spread := images[name]:
            lines.append(f"  {name + ':':<8} {_shown(spread)}")
    for name, found in (("unreadable", unreadable), ("damaged", images["damaged"])):
        if found:
            more = ", ..." if len(found) > _NAMES_SHOWN else ""
            lines.append(f"  {name}: {len(found):,} ({', '.join(map(clean, found[:_NAMES_SHOWN]))}{more})")
    return lines


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


def show(
    path: options.RecordSet,
    split: options.SplitOption = None,
    classes: Annotated[
        list[str] | None, options.option("NAME|NUMBER", "Only images of this class; may be repeated.", "--class")
    ] = None,
    number: Annotated[int, options.option("N", "How many at most.", min=1, max=1000)] = 48,
    order: Annotated[
        str,
        options.option(
            "class|random|largest|smallest", "Which: evenly by class, at random, the largest or smallest in bytes."
        ),
    ] = "class",
    seed: Annotated[int, options.option("N", "Another seed chooses other images.", min=0)] = 0,
    output: Annotated[
        Path | None, options.path_option("FILE", "The file to write; default: NAME.png here.", dir_okay=False)
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Write a contact sheet (PNG) of a record set's images with their classes."""
    if output is not None and output.suffix.lower() != ".png":
        raise ArgumentError(f"--output {output} does not end with .png.")
    reader = RecordReader(options.find_record_set(path), cache_bytes=0)  # at a URL: only what is shown
    options.say_changes(reader)
    title = reader.path.name.removesuffix(".records")
    target = output or _default_output(f"{title}.png")
    choice = choose(reader, number, split=split, classes=classes or (), order=order, seed=seed)
    if not choice.positions:
        raise ArgumentError(f"There is no image in this split or of this class in {reader.path}.")
    reader.hint(choice.field, choice.positions)
    with quiet():
        thumbnails = [make_thumbnail(reader, choice.field, each, BOX, choice.labels) for each in choice.positions]
    of = f"{len(thumbnails):,} of {counted(choice.num_candidates, 'image')}, {order}, seed {seed}"
    sheet = draw_sheet(thumbnails, title, f"split {split}, {of}" if split else of)
    info, file = PngImagePlugin.PngInfo(), io.BytesIO()
    info.add_text("Software", GENERATOR)
    sheet.save(file, "PNG", pnginfo=info)
    replace_file(target, file.getvalue())
    if as_json:
        document = {"output": str(target), "order": order, "seed": seed, "of": choice.num_candidates}
        options.put_json({**document, "images": [_document(each) for each in thumbnails]})
    problems = [each.problem for each in thumbnails]
    told = {"broken": "cannot be decoded", "large": "too large to be shown", "damaged": "damaged"}
    parts = [counted(len(thumbnails), "image")]
    parts += [f"{problems.count(name):,} {text}" for name, text in told.items() if name in problems]
    options.say(f"wrote {target}: {', '.join(parts)}; {format_bytes(len(file.getvalue()))}")
    if "damaged" not in problems:
        return Exit.OK
    options.say(f"error: {reader.path} is damaged. Run: {command('verify', '--full', reader.path)}")
    return Exit.CORRUPT


def _default_output(name: str) -> Path:
    """Return the path of the file in the current directory; it may only replace an earlier one of ours."""
    path = Path(name)
    if not path.exists():
        return path
    with path.open("rb") as file:
        if GENERATOR.encode() in file.read(4096):
            return path
    raise ArgumentError(f"{path} is there, and was not made by `recordzoo show`. Give --output.", path=str(path))


def _document(thumbnail: Thumbnail) -> dict[str, JSON]:
    facts = {name: getattr(thumbnail, name) or None for name in ("size", "format", "mode", "problem", "reason")}
    names = {"position": thumbnail.position, "name": thumbnail.name, "bytes": thumbnail.num_bytes}
    return {**names, "target": thumbnail.label, "class": thumbnail.class_name or None, **facts}


def verify(
    path: options.RecordSet,
    full: Annotated[
        bool, options.flag("--full", "Also read every byte: hashes of all files, every record's checksum.")
    ] = False,
    as_json: options.Json = False,
) -> int:
    """Check whether a record set is undamaged.

    Without --full, the contents of the shards are not read. Damaged files are named, with the command that copies or
    prepares the set again.
    """
    place = options.find_record_set(path)
    report = check(place, full=full, progress=options.make_progress())
    changes = None
    if report.ok and isinstance(place, Path):  # raw files are on the machine where a set at a URL was made
        changes = find_changes(RecordReader(place), full=True, progress=options.make_progress())
    if as_json:
        named = list(changes.found[:MOST_NAMED]) if changes else []
        options.put_json({"path": str(place), "full": full, "ok": report.ok, **_fields(report), "changes": named})
        return Exit.OK if report.ok else Exit.CORRUPT
    ours = tuple(f"{name} is " for name in BESIDE)
    for note in report.notes:
        if not note.startswith(ours):
            options.say(clean(note))
    shown = clean(str(place))
    if report.ok:
        reader = RecordReader(place)
        options.put(f"{shown}: ok. {_checked(reader, report, full=full)}")
        if changes:
            options.say_changes(reader, changes)
        return Exit.OK
    for problem in report.problems[:MAX_PROBLEMS_SHOWN]:
        options.put(clean(problem))
    if (more := len(report.problems) - MAX_PROBLEMS_SHOWN) > 0:
        options.put(f"... and {more:,} more")
    count = counted(len(report.problems), "problem")
    found = f"{count}, where the check stopped; there may be more" if report.stopped else count
    options.say(f"error: {shown} is damaged: {found}. {_advice(place, report, full=full)}")
    return Exit.CORRUPT


def _checked(reader: RecordReader, report: Report, *, full: bool) -> str:
    """Describe what was checked and what was not."""
    records = counted(len(reader), "record")
    files, size = counted(report.checked["files"], "file"), format_bytes(report.checked["bytes"])
    if full and isinstance(reader.path, Url):
        done = "was fetched and compared with the hashes in the manifest"
        return f"Every byte of {files} ({size}), with {records}, {done}."
    if full:
        return f"Every byte of {files} ({size}) and the checksum of each of {records} were checked."
    unread = format_bytes(sum(shard.size_bytes for shard in reader.manifest.shards))
    return (
        f"The sizes of {files}, and the contents of the manifest, indices and labels ({size}) were checked. The "
        f"{records} themselves ({unread}) were not read; --full does that."
    )


def _advice(place: Path | Url, report: Report, *, full: bool) -> str:
    """Describe what was not checked in a damaged set, and how to make it again."""
    unread = "" if full else "The records themselves were not read; --full does that. "
    if MANIFEST_NAME in report.damaged:
        unread = "Nothing behind the manifest was checked. "
    return unread + ("Push the record set again, with --verify." if isinstance(place, Url) else _remedy(place))


def _remedy(place: Path) -> str:
    """Name the command that copies or prepares a damaged record set again."""
    origin = _copied_from(place)
    try:
        reader = RecordReader(place)
    except RecordError:  # its manifest is damaged: it cannot be replaced, because it may be anything
        how = f"run: {command('copy', origin, place)}" if origin else "prepare the data again."
        return f"Move {clean(str(place))} away, then {clean(how)}"
    if origin:
        return f"To copy it again, run: {clean(command('copy', origin, place, '--verify', '--replace'))}"
    if again := how_to_remake(reader):
        return clean(again)
    if reader.manifest.kind is SetKind.COMBINED:
        return "Move it away, then run merge, split or subset again."
    return "Run the command or the program again that made it, with --refresh (refresh=True)."


def _copied_from(place: Path) -> str:
    """Return the path or URL from which a record set was copied or pulled; "" if there is none, or it is gone."""
    try:
        origin = str(json.loads(read_small(place / COPIED_FILE))["from"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return ""
    if is_url(origin) or (is_record_set(Path(origin)) and not os.path.samefile(origin, place)):
        return origin
    return ""


def _fields(report: JSON) -> dict[str, JSON]:
    """Return the report's attributes as JSON."""
    document = dataclasses.asdict(report)
    return {key: document[key] for key in ("problems", "checked", "notes", "damaged", "stopped")}
