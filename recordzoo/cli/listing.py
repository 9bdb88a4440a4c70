"""`list`: the datasets of the catalogue. `info`: the facts of one; `recordzoo.cli.record_set` prints those of a set."""

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from recordzoo import catalogue
from recordzoo.base.progress import format_bytes, format_seconds
from recordzoo.base.settings import command
from recordzoo.base.text import JSON, public_url
from recordzoo.catalogue import CHECKED, CONVERT_SPEED, OBTAINED, Entry, FileFacts
from recordzoo.catalogue.search import GROUPS, list_datasets, shown
from recordzoo.cli import options
from recordzoo.cli.app import Exit
from recordzoo.errors import ArgumentError
from recordzoo.own.targets import find_dataset, is_path


def info(
    name: Annotated[
        str,
        options.data_argument(
            "NAME|PATH|URL", "A dataset; or a record set's directory or URL, or the tree or list that it was made from."
        ),
    ],
    full: Annotated[
        bool,
        options.flag(
            "--full", "Of a record set: read the headers of all images, not of 2,000 at random (at a URL 200)."
        ),
    ] = False,
    as_json: options.Json = False,
) -> int:
    """Show what is known of a dataset: size, splits, files, license.

    For a record set: splits, classes, fields, image sizes and formats, bytes, and where it came from.
    """
    if is_path(name) or (Path(name) / "manifest.json").is_file():
        from recordzoo.cli.record_set import show_record_set

        return show_record_set(name, full=full, as_json=as_json)
    entry, _ = find_dataset(name)
    if as_json:
        options.put_json({"dataset": entry_document(entry)})
    else:
        options.put(describe(entry, options.wrapping_width()))
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
    lines.append(options.table(("  NAME", "DIRECTORY", "HOLDS"), rows, width))
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
    is_exact = all(file.size_bytes is not None for file in entry.default_files)
    how = "> " if entry.size_bytes is None else "" if is_exact else "about "
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
        del file["folder"], file["instructions"]  # those of the dataset
    for part in document["parts"]:
        part["label"] = entry.label(part["name"])
        part["set_name"] = entry.set_name(part["name"])
        del part["layout"], part["recipe"], part["classes"]  # for the recipe
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


def list_command(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORD", help="Only those with all these words in their name, description or task."),
    ] = None,
    task: Annotated[str | None, options.option("TASK", "Only those with this task: detection, ...")] = None,
    license: Annotated[
        str | None,
        options.option(
            "NAME|GROUP",
            f"Only those with this license (MIT, CC BY, CC BY 4.0), or of this group: {', '.join(GROUPS)}.",
        ),
    ] = None,
    obtained: Annotated[
        str | None, options.option("HOW", "Only those whose files are had so: download, terms, partly, by-hand.")
    ] = None,
    max_size: Annotated[
        str | None, options.option("SIZE", "Only those whose download is known to be at most so large: 2GB.")
    ] = None,
    checked: Annotated[
        str | None, options.option("HOW", "Only those whose recipe was checked so: bytes, lists, layout.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """List the datasets that can be prepared by name.

    CHECKED says how the recipe was checked: "bytes" with the whole real files, "lists" with real lists or a part of the
    real files, "layout" with generated files only.
    """
    max_bytes = options.parse_bytes("--max-size", max_size) if max_size else None
    try:
        names = list_datasets(
            *(words or ()),
            task=task or "",
            license=license or "",
            obtained=obtained or "",
            checked=checked or "",
            max_bytes=max_bytes,
        )
    except ArgumentError as err:
        raise ArgumentError(f"--{err}") from err
    found = list(map(catalogue.entry, names))
    if as_json:
        options.put_json({"datasets": [entry_document(entry) for entry in found]})
    elif found:
        head = ("NAME", "TASK", "IMAGES", "DOWNLOAD", "LICENSE", "CHECKED")
        rows = [(e.name, e.task, number(e.num_images), download(e), shown(e.license), e.checked.by) for e in found]
        options.put(options.table(head, rows, options.wrapping_width()))
    else:
        options.say(f"No dataset fits. {command('list')} shows all {len(catalogue.names())}.")


def download(entry: Entry) -> str:
    """Format the download size and what else is required."""
    text = size(entry).replace("about ", "~").replace(" ", options.FIXED_SPACE)
    return {"download": text, "terms": f"{text} (terms)", "partly": f"{text} (some by hand)"}.get(
        entry.obtained, entry.obtained
    )
