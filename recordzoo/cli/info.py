"""`list` and `info`: what the catalogue, or a record set on disk, says."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recordzoo import catalogue
from recordzoo.catalogue import Entry, FileFacts
from recordzoo.cli import output, targets
from recordzoo.errors import NotPreparedError
from recordzoo.progress import format_bytes


def list_datasets(as_json: bool) -> None:
    """Print one line for each dataset."""
    entries = [catalogue.entry(name) for name in catalogue.names()]
    if as_json:
        output.put_json({"datasets": [entry_document(entry) for entry in entries]})
        return
    head = ("NAME", "SIZE", "CLASSES", "SPLITS", "TITLE")
    output.put(output.table(head, [(e.name, size(e), number(e.num_classes), splits(e), e.title) for e in entries]))


def show(name: str, as_json: bool) -> None:
    """Print what is known of a dataset, or of the record set at a path."""
    if targets.is_path(name):
        _show_record_set(Path(name), as_json)
        return
    entry, _ = targets.find_dataset(name)
    if as_json:
        output.put_json({"dataset": entry_document(entry)})
    else:
        output.put(describe(entry))


def describe(entry: Entry) -> str:
    """Write what is known of a dataset, for people."""
    lines = [f"{entry.title} ({entry.name})", entry.summary, ""]
    facts = {
        "download": size(entry),
        "classes": number(entry.num_classes),
        "splits": splits(entry),
        "python": ", ".join(f"recordzoo.{name}" for name in entry.class_names),
        "homepage": entry.homepage,
        "licence": entry.licence,
        "cite": entry.citation,
    }
    lines += [f"{key + ':':<10} {value}" for key, value in facts.items()]
    lines += ["", "record sets:"]
    rows = [
        (
            f"  {entry.label(part.name)}",
            f"{entry.set_name(part.name)}.records",
            part.description + (" (only when named)" if part.optional else ""),
        )
        for part in entry.parts
    ]
    lines.append(output.table(("  NAME", "DIRECTORY", "HOLDS"), rows))
    lines += ["", "raw files:", *(f"  {_file_line(file)}" for file in entry.files)]
    terms = " --accept-terms" if any(file.needs_terms for file in entry.files) else ""
    lines += ["", f"prepare:   recordzoo prepare {entry.name} --root DIR{terms}"]
    return "\n".join(lines)


def size(entry: Entry) -> str:
    """Say how much is downloaded, "?" where nobody knows."""
    return format_bytes(entry.size_bytes) if entry.size_bytes else "?"


def number(value: int | None) -> str:
    """Write a count, "-" where there is none."""
    return "-" if value is None else f"{value:,}"


def splits(entry: Entry) -> str:
    """List the splits with their numbers of samples."""
    return ", ".join(f"{split.name} {split.count:,}" for split in entry.splits)


# Any: JSON values.
def entry_document(entry: Entry) -> dict[str, Any]:
    """Make a dataset's JSON: the catalogue's facts under stable keys."""
    document = dataclasses.asdict(entry)
    document["classes"] = list(document.pop("class_paths"))
    document.pop("recipe_module")
    document["size_bytes"] = entry.size_bytes
    for part in document["parts"]:
        part["label"] = entry.label(part["name"])
        part["set_name"] = entry.set_name(part["name"])
    return document


def _file_line(file: FileFacts) -> str:
    size_text = f"{file.size_bytes:,} bytes" if file.size_bytes else "size not known"
    digest = f"sha256 {file.sha256}" if file.sha256 else f"md5 {file.md5}" if file.md5 else "no hash known"
    terms = ["terms of access"] if file.needs_terms else []
    return ", ".join([file.name, size_text, digest, *terms, *file.urls[:1]])


def _show_record_set(path: Path, as_json: bool) -> None:
    from recordzoo.records.reader import RecordReader

    if not path.exists():
        raise NotPreparedError(f"There is no record set at {path}: it does not exist.", path=str(path))
    reader = RecordReader(path)
    manifest = reader.manifest
    total = sum(shard.size_bytes for shard in manifest.shards) + sum(a.size_bytes for a in manifest.arrays.values())
    document: dict[str, Any] = {  # Any: JSON values
        "path": str(path),
        "digest": reader.digest,
        "dataset": manifest.dataset,
        "part": manifest.part,
        "variant": manifest.variant,
        "records": manifest.num_records,
        "classes": None if manifest.classes is None else len(manifest.classes),
        "splits": dict(manifest.splits),
        "fields": {name: spec.encoding for name, spec in manifest.blobs.items()},
        "shards": len(manifest.shards),
        "size_bytes": total,
        "bad": _true_number(manifest.metadata.get("num_bad"), manifest.bad),
        "skipped": _true_number(manifest.metadata.get("num_skipped"), manifest.skipped),
        "raw_files": [dataclasses.asdict(file) for file in manifest.raw_files],
    }
    if as_json:
        output.put_json({"record_set": document})
        return
    name = f"{manifest.dataset}.{manifest.part}" if manifest.part else manifest.dataset
    shards = "shard" if len(manifest.shards) == 1 else "shards"
    counts = ", ".join(f"{split} {count:,}" for split, count in manifest.splits.items())
    output.put(
        "\n".join(
            [
                f"record set of {name}, {manifest.variant}",
                f"records:   {manifest.num_records:,}",
                f"splits:    {counts or '-'}",
                f"classes:   {number(document['classes'])}",
                f"fields:    {', '.join(document['fields'])}",
                f"size:      {format_bytes(total)} in {len(manifest.shards):,} {shards}",
                f"bad:       {document['bad']:,} that no decoder recognises, {document['skipped']:,} left out",
                f"digest:    {reader.digest}",
            ]
        )
    )


def _true_number(noted: object, named: Mapping[str, str]) -> int:
    """Return how many there are: of many, the manifest names only the first and notes the number."""
    return noted if isinstance(noted, int) else len(named)
