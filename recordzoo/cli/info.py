"""`info`: the facts of a dataset; `recordzoo.cli.record_set` prints those of a record set."""

import dataclasses
from pathlib import Path
from typing import Annotated

from recordzoo.base.addresses import public_url
from recordzoo.base.program import command
from recordzoo.base.progress import format_bytes, format_seconds
from recordzoo.base.types import JSON
from recordzoo.catalogue import CHECKED, OBTAINED, Entry, FileFacts
from recordzoo.catalogue.facts import CONVERT_SPEED
from recordzoo.cli import output
from recordzoo.cli.exits import Exit
from recordzoo.cli.options import Json, data_argument, flag
from recordzoo.cli.tables import table, wrapped, wrapping_width
from recordzoo.custom.targets import find_dataset, is_path


def info(
    name: Annotated[
        str,
        data_argument(
            "NAME|PATH|URL", "A dataset; or a record set's directory or URL, or the tree or list that it was made from."
        ),
    ],
    full: Annotated[
        bool, flag("--full", "Of a record set: read the headers of all images, not of 2,000 at random (at a URL 200).")
    ] = False,
    as_json: Json = False,
) -> int:
    """Show what is known of a dataset: size, splits, files, license.

    For a record set: splits, classes, fields, image sizes and formats, bytes, and where it came from.
    """
    if is_path(name) or (Path(name) / "manifest.json").is_file():
        from recordzoo.cli.record_set import show_record_set

        return show_record_set(name, full=full, as_json=as_json)
    entry, _ = find_dataset(name)
    if as_json:
        output.put_json({"dataset": entry_document(entry)})
    else:
        width = wrapping_width()
        output.put(wrapped(describe(entry, width), width))
    return Exit.OK


def describe(entry: Entry, width: int | None = None) -> str:
    """Format the facts of a dataset for people."""
    lines = [f"{entry.title} ({entry.name})", entry.summary, ""]
    facts = {
        "download": size(entry, unknown="size not known"),
        "disk": disk(entry),
        "time": duration(entry),
        "classes": number(entry.num_classes),
        "splits": ", ".join(f"{split.name} {split.count:,}" for split in entry.default_splits),
        "obtained": OBTAINED[entry.obtained],
        "python": ", ".join(f"recordzoo.{name}" for name in entry.class_names),
        "homepage": entry.homepage,
        "license": license(entry),
        "cite": entry.citation,
        "checked": checked(entry),
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
    lines.append(table(("  NAME", "DIRECTORY", "HOLDS"), rows, width))
    folder = f" (in ROOT/{entry.folder})" if entry.folder else ""
    lines += ["", f"raw files{folder}:", *(line for file in entry.files for line in _file_lines(file))]
    if entry.instructions:
        by_hand = (
            entry.instructions.replace("{folder}", "DIR").replace("{root}", "DIR").replace("{recordzoo}", command())
        )
        lines += ["", "by hand:", *(f"  {line}" for line in by_hand.split("\n"))]
    if entry.differences:
        lines += ["", "unlike torchvision:", *(f"  {difference}" for difference in entry.differences)]
    terms = " --accept-terms" if any(file.needs_terms for file in entry.files) else ""
    lines += ["", f"prepare:   {command('prepare', entry.name, '--root', 'DIR')}{terms}"]
    return "\n".join(lines)


def size(entry: Entry, unknown: str = "?") -> str:
    """Format the size of the download: "about 1 GB"; "> 1 GB" if some sizes are unknown, `unknown` if all are."""
    if not entry.known_bytes:
        return unknown
    how = "> " if entry.size_bytes is None else "" if entry.is_size_exact else "about "
    return how + format_bytes(entry.known_bytes)


def disk(entry: Entry) -> str:
    """Format the disk space of the record sets and of their preparation."""
    kept, needed = entry.costs.kept_bytes, entry.costs.needed_bytes
    if kept is None or needed is None:
        return "unknown"
    return f"about {format_bytes(kept)} for the record sets; {format_bytes(needed)} while preparing, with the raw files"


def duration(entry: Entry) -> str:
    """Format the conversion time on one core."""
    seconds = entry.costs.convert_seconds
    if seconds is None:
        return "unknown"
    speed = format_bytes(int(CONVERT_SPEED))
    return f"about {format_seconds(max(1, seconds))} to convert on one core: an estimate, at {speed}/s of raw data"


def license(entry: Entry) -> str:
    """Format the license and its source."""
    source = entry.license_source
    return f"{entry.license.rstrip('.')}. Source: {source}" if source else entry.license


def checked(entry: Entry) -> str:
    """Format how the recipe was checked, its meaning, and the files used."""
    how = entry.checked
    return f"{how.by} ({how.date}). {CHECKED[how.by]} Source: {how.source}"


def number(value: int | None) -> str:
    """Write a count, "-" where there is none."""
    return "-" if value is None else f"{value:,}"


def entry_document(entry: Entry) -> dict[str, JSON]:
    """Make a dataset's JSON: the catalogue's facts under stable keys."""
    document = dataclasses.asdict(entry)
    document["source"] = document.pop("module")
    document["class_labels"] = document["classes"]
    document["classes"] = [f"{entry.dataset_module}:{name}" for name in document.pop("class_names")]
    document["size_bytes"] = entry.size_bytes
    document["costs"] = dataclasses.asdict(entry.costs)
    for file in document["files"]:
        file["urls"] = [public_url(url) for url in file["urls"]]
    for part in document["parts"]:
        part["label"] = entry.label(part["name"])
        part["set_name"] = entry.set_name(part["name"])
        del part["layout"]  # for the recipe
    return document


def _file_lines(file: FileFacts) -> list[str]:
    """Describe a raw file; its address and its mirrors follow in lines of their own."""
    terms = ["terms of access"] if file.needs_terms else []
    doubt = ["the hash is not confirmed"] if file.unconfirmed and not file.sha256 else []
    first = ", ".join([file.name, _file_size(file), file.hashes or "no hash known", *doubt, *terms])
    return [f"  {first}", *(f"    {public_url(url)}" for url in file.urls)]


def _file_size(file: FileFacts) -> str:
    if file.size_bytes is not None:
        return f"{file.size_bytes:,} bytes"
    return "size not known" if file.about_bytes is None else f"about {format_bytes(file.about_bytes)}"
