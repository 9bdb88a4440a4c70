"""`show`: a record set's images on a contact sheet. `verify`: check a set, and name the command that makes it again."""

import dataclasses
import io
import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from PIL import PngImagePlugin

from recordzoo.base import durable
from recordzoo.base.progress import format_bytes
from recordzoo.base.settings import command
from recordzoo.base.text import JSON, PLATFORM, clean
from recordzoo.cli import options
from recordzoo.cli.app import Exit
from recordzoo.errors import ArgumentError, RecordError
from recordzoo.net.url import Url, is_url
from recordzoo.preparing.changes import recorded_changes
from recordzoo.preparing.preparation import MOST_NAMED
from recordzoo.preview import BOX, Thumbnail, choose, draw_sheet, make_thumbnail
from recordzoo.recipes.recipe import quiet
from recordzoo.records.checking import Report
from recordzoo.records.kinds import SetKind
from recordzoo.records.manifest import MANIFEST_NAME
from recordzoo.records.reader import RecordReader, is_record_set
from recordzoo.records.verify import verify as check
from recordzoo.records.writer import BESIDE, COPIED_FILE
from recordzoo.zoo import remake_command

GENERATOR = "recordzoo show"


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
    output: Annotated[Path | None, options.file_option("The file to write; default: NAME.png here.")] = None,
    open_viewer: Annotated[
        bool | None,
        typer.Option(
            "--open/--no-open",
            help="Open the file in the desktop's viewer. Default: in its terminals, but not over SSH or with --json.",
            show_default=False,
        ),
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Write a contact sheet (PNG) of a record set's images with their classes.

    On a desktop the file is also opened in its viewer.
    """
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
    of = f"{len(thumbnails):,} of {_images(choice.num_candidates)}, {order}, seed {seed}"
    sheet = draw_sheet(thumbnails, title, f"split {split}, {of}" if split else of)
    info, file = PngImagePlugin.PngInfo(), io.BytesIO()
    info.add_text("Software", GENERATOR)
    sheet.save(file, "PNG", pnginfo=info)
    durable.replace_file(target, file.getvalue())
    if as_json:
        document = {"output": str(target), "order": order, "seed": seed, "of": choice.num_candidates}
        options.put_json({**document, "images": [_document(each) for each in thumbnails]})
    problems = [each.problem for each in thumbnails]
    told = {"broken": "cannot be decoded", "large": "too large to be shown", "damaged": "damaged"}
    parts = [_images(len(thumbnails)), *(f"{problems.count(p):,} {t}" for p, t in told.items() if p in problems)]
    options.say(f"wrote {target}: {', '.join(parts)}; {format_bytes(len(file.getvalue()))}")
    is_opened = open_viewer or (open_viewer is None and not as_json and is_on_desktop())
    if is_opened and typer.launch(str(target.absolute())) != 0:
        options.say(f"No viewer could be started for {target}. On Linux, xdg-open (package xdg-utils) does it.")
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


def _images(count: int) -> str:
    return f"{count:,} image{'' if count == 1 else 's'}"


def is_on_desktop() -> bool:
    """Whether the command runs in a terminal on a desktop: its output is not piped, and a viewer would be seen.

    Over SSH there may be a display (``ssh -X``), but a viewer would be slow there: it counts as no desktop.
    """
    if not all(stream is not None and stream.isatty() for stream in (sys.stdout, sys.stderr)):
        return False
    if any(os.environ.get(name) for name in ("SSH_CONNECTION", "SSH_TTY")):
        return False
    return PLATFORM in ("darwin", "win32") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


MAX_PROBLEMS_SHOWN = 50


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
        changes = recorded_changes(RecordReader(place), full=True, progress=options.make_progress())
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
        options.put(
            options.wrapped(
                f"{shown}: ok. {_checked(RecordReader(place), report, full=full)}", options.wrapping_width()
            )
        )
        if changes:
            options.say_changes(RecordReader(place), changes)
        return Exit.OK
    for problem in report.problems[:MAX_PROBLEMS_SHOWN]:
        options.put(clean(problem))
    more = len(report.problems) - MAX_PROBLEMS_SHOWN
    if more > 0:
        options.put(f"... and {more:,} more")
    count = f"{len(report.problems):,} problem{'s' if len(report.problems) > 1 else ''}"
    found = f"{count}, where the check stopped; there may be more" if report.stopped else count
    options.say(f"error: {shown} is damaged: {found}. {_advice(place, report, full=full)}")
    return Exit.CORRUPT


def _checked(reader: RecordReader, report: Report, *, full: bool) -> str:
    """Describe what was checked and what was not."""
    records = f"{len(reader):,} record{'' if len(reader) == 1 else 's'}"
    files, size = f"{report.checked['files']:,} files", format_bytes(report.checked["bytes"])
    if full and isinstance(reader.path, Url):
        return (
            f"Every byte of {files} ({size}), with {records}, was fetched and compared with the hashes in the manifest."
        )
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
    again = remake_command(reader)
    if again:
        return f"To make it again, run: {clean(again)}"
    if reader.manifest.kind is SetKind.COMBINED:
        return "Move it away, then run merge, split or subset again."
    return "Run the command or the program again that made it, with --refresh (refresh=True)."


def _copied_from(place: Path) -> str:
    """Return the path or URL from which a record set was copied or pulled; "" if there is none, or it is gone."""
    try:
        origin = str(json.loads((place / COPIED_FILE).read_bytes())["from"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return ""
    if is_url(origin) or (is_record_set(Path(origin)) and not os.path.samefile(origin, place)):
        return origin
    return ""


def _fields(report: JSON) -> dict[str, JSON]:
    """Return the report's attributes as JSON."""
    document = dataclasses.asdict(report)
    return {key: document[key] for key in ("problems", "checked", "notes", "damaged", "stopped")}
