"""`show`: a record set's images as a contact sheet."""

import io
import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from PIL import PngImagePlugin

from recordzoo.base import durable
from recordzoo.base.program import command
from recordzoo.base.progress import format_bytes
from recordzoo.base.types import JSON
from recordzoo.cli import output as printed
from recordzoo.cli import targets
from recordzoo.cli.exits import Exit
from recordzoo.cli.options import Json, RecordSet, SplitOption, file_option, option
from recordzoo.errors import ArgumentError
from recordzoo.preview.choose import choose
from recordzoo.preview.sheet import BOX, draw_sheet
from recordzoo.preview.thumbnail import Thumbnail, make_thumbnail
from recordzoo.recipes.images import quiet
from recordzoo.records.reader import RecordReader
from recordzoo.system.names import PLATFORM

GENERATOR = "recordzoo show"


def show(
    path: RecordSet,
    split: SplitOption = None,
    classes: Annotated[
        list[str] | None, option("NAME|NUMBER", "Only images of this class; may be repeated.", "--class")
    ] = None,
    number: Annotated[int, option("N", "How many at most.", min=1, max=1000)] = 48,
    order: Annotated[
        str,
        option("class|random|largest|smallest", "Which: evenly by class, at random, the largest or smallest in bytes."),
    ] = "class",
    seed: Annotated[int, option("N", "Another seed chooses other images.", min=0)] = 0,
    output: Annotated[Path | None, file_option("The file to write; default: NAME.png here.")] = None,
    open_viewer: Annotated[
        bool | None,
        typer.Option(
            "--open/--no-open",
            help="Open the file in the desktop's viewer. Default: in its terminals, but not over SSH or with --json.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Write a contact sheet (PNG) of a record set's images with their classes.

    On a desktop the file is also opened in its viewer.
    """
    if output is not None and output.suffix.lower() != ".png":
        raise ArgumentError(f"--output {output} does not end with .png.")
    reader = RecordReader(targets.find_record_set(path), cache_bytes=0)  # at a URL: only what is shown
    targets.say_changes(reader)
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
        printed.put_json({**document, "images": [_document(each) for each in thumbnails]})
    problems = [each.problem for each in thumbnails]
    told = {"broken": "cannot be decoded", "large": "too large to be shown", "damaged": "damaged"}
    parts = [_images(len(thumbnails)), *(f"{problems.count(p):,} {t}" for p, t in told.items() if p in problems)]
    printed.say(f"wrote {target}: {', '.join(parts)}; {format_bytes(len(file.getvalue()))}")
    is_opened = open_viewer or (open_viewer is None and not as_json and is_on_desktop())
    if is_opened and typer.launch(str(target.absolute())) != 0:
        printed.say(f"No viewer could be started for {target}. On Linux, xdg-open (package xdg-utils) does it.")
    if "damaged" not in problems:
        return Exit.OK
    printed.say(f"error: {reader.path} is damaged. Run: {command('verify', '--full', reader.path)}")
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
