"""`list`: the catalogue's datasets, or those that are prepared, in one line each."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from recordzoo import catalogue
from recordzoo.base.program import command
from recordzoo.base.progress import format_bytes
from recordzoo.base.types import JSON
from recordzoo.catalogue import Entry, licenses
from recordzoo.catalogue.search import fitting
from recordzoo.cli import output
from recordzoo.cli.info import entry_document, number, size
from recordzoo.cli.options import Json, flag, option, parse_bytes, path_option
from recordzoo.cli.tables import FIXED_SPACE, table, wrapping_width
from recordzoo.errors import ArgumentError


def list_command(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORD", help="Only those with all these words in their name, description or task."),
    ] = None,
    task: Annotated[str | None, option("TASK", "Only those with this task: detection, ...")] = None,
    license: Annotated[
        str | None,
        option(
            "NAME|GROUP",
            f"Only those with this license (MIT, CC BY, CC BY 4.0), or of this group: {', '.join(licenses.GROUPS)}.",
        ),
    ] = None,
    obtained: Annotated[
        str | None, option("HOW", "Only those whose files are had so: download, terms, partly, by-hand.")
    ] = None,
    max_size: Annotated[
        str | None, option("SIZE", "Only those whose download is known to be at most so large: 2GB.")
    ] = None,
    checked: Annotated[
        str | None, option("HOW", "Only those whose recipe was checked so: bytes, lists, layout.")
    ] = None,
    prepared: Annotated[
        bool, flag("--prepared", "Only the record sets that are prepared under ROOT, with their sizes.")
    ] = False,
    root: Annotated[Path | None, path_option("DIR", "With --prepared: where they are; default: here.")] = None,
    as_json: Json = False,
) -> None:
    """List the datasets that can be prepared by name.

    CHECKED says how the recipe was checked: "bytes" with the whole real files, "lists" with real lists or a part of the
    real files, "layout" with generated files only.
    """
    max_bytes = parse_bytes("--max-size", max_size) if max_size else None
    try:
        found = fitting(
            map(catalogue.entry, catalogue.names()),
            words or (),
            task=task or "",
            license=license or "",
            obtained=obtained or "",
            checked=checked or "",
            max_bytes=max_bytes,
        )
    except ArgumentError as err:
        raise ArgumentError(f"--{err}") from err
    if prepared:
        list_prepared(found, root or Path(), as_json)
    elif root is not None:
        raise ArgumentError("--root says where to look for record sets; it needs --prepared.")
    else:
        list_datasets(found, as_json)


def list_datasets(entries: Sequence[Entry], as_json: bool) -> None:
    """Print one line for each dataset."""
    if as_json:
        output.put_json({"datasets": [entry_document(entry) for entry in entries]})
        return
    if not entries:
        output.say(f"No dataset fits. {command('list')} shows all {len(catalogue.names())}.")
        return
    head = ("NAME", "TASK", "IMAGES", "DOWNLOAD", "LICENSE", "CHECKED")
    rows = [
        (e.name, e.task, number(e.num_images), download(e), licenses.shown(e.license), e.checked.by) for e in entries
    ]
    output.put(table(head, rows, wrapping_width()))


def list_prepared(entries: Sequence[Entry], root: Path, as_json: bool) -> None:
    """Print one line for each record set of the catalogue's datasets under a root."""
    found: list[dict[str, JSON]] = []
    for entry in entries:
        for part in entry.parts:
            path = root / f"{entry.set_name(part.name)}.records"
            if (path / "manifest.json").is_file():
                size_bytes = sum(file.stat().st_size for file in path.iterdir())
                found.append({"name": entry.label(part.name), "path": str(path), "size_bytes": size_bytes})
    if as_json:
        output.put_json({"prepared": found})
    elif found:
        rows = [(each["name"], format_bytes(each["size_bytes"]), each["path"]) for each in found]
        output.put(table(("NAME", "SIZE", "PATH"), rows, wrapping_width()))
    else:
        output.say(
            f"No dataset of the catalogue is prepared in {root.absolute()}. {command('cache', 'ls')} lists all record "
            "sets, also those of your own images."
        )


def download(entry: Entry) -> str:
    """Format the download size and what else is required."""
    text = size(entry).replace("about ", "~").replace(" ", FIXED_SPACE)
    return {"download": text, "terms": f"{text} (terms)", "partly": f"{text} (some by hand)"}.get(
        entry.obtained, entry.obtained
    )
