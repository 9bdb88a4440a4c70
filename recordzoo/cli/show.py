"""`show`: a record set's images as a contact sheet or a page."""

import io
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from PIL import PngImagePlugin

from recordzoo.base import durable
from recordzoo.base.meant import did_you_mean
from recordzoo.base.program import command
from recordzoo.base.progress import format_bytes
from recordzoo.base.text import clean
from recordzoo.base.types import JSON
from recordzoo.cli import output as printed
from recordzoo.cli import targets
from recordzoo.cli.exits import Exit
from recordzoo.cli.options import Json, RecordSet, SplitOption, file_option, flag, option, path_option
from recordzoo.errors import ArgumentError
from recordzoo.preview.broken import AT_MOST, find_broken
from recordzoo.preview.captions import is_drawable, load_font
from recordzoo.preview.choose import ORDERS, Choice, candidates, choose, picture_field
from recordzoo.preview.page import BOX as PAGE_BOX
from recordzoo.preview.page import GENERATOR, write_page
from recordzoo.preview.sheet import BOX, Cell, draw_sheet
from recordzoo.preview.thumbnail import Thumbnail, make_thumbnail
from recordzoo.recipes.images import quiet
from recordzoo.records.labels import Labels, load_labels
from recordzoo.records.reader import RecordReader
from recordzoo.system.names import PLATFORM

DEFAULT_NUMBER = {"png": 48, "html": 200}
MOST = {"png": 1000, "html": 5000}
_ENDINGS = {"png": (".png",), "html": (".html", ".htm")}
_HEAD_BYTES = 4096  # the beginning of a page or a sheet, which names its generator


def show(
    path: RecordSet,
    split: SplitOption = None,
    classes: Annotated[
        list[str] | None, option("NAME|NUMBER", "Only images of this class; may be repeated.", "--class")
    ] = None,
    number: Annotated[
        int | None, option("N", "How many at most; default: 48 on a sheet, 200 on a page.", min=1)
    ] = None,
    order: Annotated[
        str,
        option(
            "class|random|largest|smallest|broken",
            "Which: evenly by class, at random, the largest or smallest in bytes, or those that are broken.",
        ),
    ] = "class",
    seed: Annotated[int, option("N", "Another seed chooses other images.", min=0)] = 0,
    output: Annotated[Path | None, file_option("The file to write; default: NAME.png or NAME.html here.")] = None,
    as_html: Annotated[
        bool, flag("--html", "Write one self-contained page: larger images, facts, a class filter.")
    ] = False,
    full: Annotated[bool, flag("--full", "Look for broken images among all, not among 20,000 at random.")] = False,
    font: Annotated[
        Path | None,
        path_option("FILE", "A font file for a sheet with names that are not in Latin letters."),
    ] = None,
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
    """Write a contact sheet (PNG) of a record set's images with their classes, or a page that a browser shows.

    On a desktop the file is also opened in its viewer.
    """
    kind = "html" if as_html or (output is not None and output.suffix.lower() in _ENDINGS["html"]) else "png"
    _check(kind, order, number, output)
    reader = RecordReader(targets.find_record_set(path), cache_bytes=0)  # at a URL: only what is shown
    targets.say_changes(reader)
    title = reader.path.name.removesuffix(".records")
    target = output or _default_output(f"{title}.{kind}")
    field = picture_field(reader)
    labels = load_labels(reader)
    found = candidates(reader, field, split, labels, classes or ())
    count = DEFAULT_NUMBER[kind] if number is None else number
    if order == "broken":
        at_most = None if full else AT_MOST
        choice = find_broken(
            reader, field, found, number=count, seed=seed, progress=printed.make_progress(), at_most=at_most
        )
    else:
        choice = choose(reader, field, found, labels, order=order, number=count, seed=seed)
    if not choice.positions:
        if order != "broken":
            raise ArgumentError(
                f"There is no image in this split or of this class in {reader.path}."
                if split or classes
                else f"{reader.path} has no images."
            )
        return _say_none_broken(choice, as_json=as_json)
    subtitle = _describe(choice, labels, split, order, seed)
    with quiet():
        thumbnails = _thumbnails(reader, field, choice.positions, labels, kind)
        if kind == "html":
            data, seen = _page(thumbnails, title, subtitle)
        else:
            data, seen = _sheet(thumbnails, title, subtitle, order, font)
    durable.replace_file(target, data)
    if as_json:
        printed.put_json(
            {
                "output": str(target),
                "format": kind,
                "size_bytes": len(data),
                "order": order,
                "seed": seed,
                "of": choice.num_candidates,
                "images": [_document(thumbnail, labels) for thumbnail in seen],
            }
        )
    code = _report(reader, target, len(data), seen)
    if open_viewer or (open_viewer is None and not as_json and is_on_desktop()):
        open_file(target)
    return code


def _check(kind: str, order: str, number: int | None, output: Path | None) -> None:
    if order not in ORDERS:
        hint = did_you_mean(order, ORDERS)
        raise ArgumentError(f"Unknown value {order!r} for --order. Valid values are {', '.join(ORDERS)}.{hint}")
    if number is not None and number > MOST[kind]:
        raise ArgumentError(f"--number {number:,} is too many for one file: at most {MOST[kind]:,}.")
    if output is not None and output.suffix.lower() not in _ENDINGS[kind]:
        endings = " or ".join(_ENDINGS[kind])
        raise ArgumentError(f"--output {output} does not end with {endings}. A sheet is a .png, a page a .html.")


def _default_output(name: str) -> Path:
    """Return the path of the file in the current directory; it may only replace an earlier one of ours."""
    path = Path(name)
    if not path.exists():
        return path
    with path.open("rb") as file:
        if GENERATOR.encode() in file.read(_HEAD_BYTES):
            return path
    raise ArgumentError(f"{path} is there, and was not made by `recordzoo show`. Give --output.", path=str(path))


def _describe(choice: Choice, labels: Labels | None, split: str | None, order: str, seed: int) -> str:
    """Describe the choice of images in one line: ``12 of 4,000 images, 12 of 200 classes, seed 0``."""
    count, total = f"{len(choice.positions):,}", _images(choice.num_candidates)
    if order == "broken":
        parts = [f"{count} broken of {total} that were looked at"]
    elif order in ("largest", "smallest"):
        parts = [f"the {count} {order} of {total}"]
    else:
        parts = [f"{count} of {total}" if len(choice.positions) < choice.num_candidates else total]
    if labels is not None and choice.num_classes is not None:
        shown = len(set(labels.numbers[choice.positions].tolist()))
        of = f"{shown:,} of " if shown < choice.num_classes else ""
        parts.append(f"{of}{choice.num_classes:,} {'class' if choice.num_classes == 1 else 'classes'}")
    if split is not None:
        parts.insert(0, f"split {split}")
    if order == "random" or (order == "class" and labels is not None):
        parts.append(f"seed {seed}")
    return ", ".join(parts)


def _thumbnails(
    reader: RecordReader, field: str, positions: Sequence[int], labels: Labels | None, kind: str
) -> Iterator[Thumbnail]:
    reader.hint(field, positions)
    box = PAGE_BOX if kind == "html" else BOX
    for position in positions:
        yield make_thumbnail(reader, field, position, box, labels, enlarge=kind == "png")


def _page(thumbnails: Iterator[Thumbnail], title: str, subtitle: str) -> tuple[bytes, list[Thumbnail]]:
    seen: list[Thumbnail] = []

    def noted() -> Iterator[Thumbnail]:
        for thumbnail in thumbnails:
            seen.append(replace(thumbnail, image=None))  # 5,000 pictures would take 3 GB
            yield thumbnail

    return write_page(noted(), title, subtitle).encode(), seen


def _sheet(
    thumbnails: Iterator[Thumbnail], title: str, subtitle: str, order: str, font_file: Path | None
) -> tuple[bytes, list[Thumbnail]]:
    seen = list(thumbnails)
    cells = [_cell(thumbnail, order) for thumbnail in seen]
    font = load_font(12, font_file)
    if not all(is_drawable(clean(text), font) for cell in cells for text in (cell.caption, *cell.details)):
        printed.say(
            "Some names have characters that the sheet's font lacks: --font FILE takes another font, and --html shows "
            "them as they are."
        )
    sheet = draw_sheet(cells, title, subtitle, font=font_file)
    info = PngImagePlugin.PngInfo()
    info.add_text("Software", GENERATOR)
    file = io.BytesIO()
    sheet.save(file, "PNG", pnginfo=info)
    return file.getvalue(), seen


def _cell(thumbnail: Thumbnail, order: str) -> Cell:
    details = [thumbnail.short_name]
    if thumbnail.caption not in ("", thumbnail.title):
        details.append(thumbnail.caption)
    if order in ("largest", "smallest"):
        size = "" if thumbnail.size is None else f"{thumbnail.size[0]:,} x {thumbnail.size[1]:,}, "
        details.append(f"{size}{format_bytes(thumbnail.num_bytes)}")
    return Cell(thumbnail.image, thumbnail.title, details, thumbnail.reason)


def _say_none_broken(choice: Choice, *, as_json: bool) -> int:
    if as_json:
        printed.put_json({"output": None, "images": [], "of": choice.num_candidates, "order": "broken"})
    else:
        printed.say(f"none of {_images(choice.num_candidates)} that were looked at is broken; nothing is written")
    return Exit.OK


def _report(reader: RecordReader, target: Path, num_bytes: int, thumbnails: Sequence[Thumbnail]) -> int:
    """Print what was written and the problems of images; return the exit code."""
    problems = {kind: sum(t.problem == kind for t in thumbnails) for kind in ("broken", "large", "damaged")}
    told = {"broken": "cannot be decoded", "large": "too large to be shown", "damaged": "damaged"}
    parts = [f"{count:,} {told[kind]}" for kind, count in problems.items() if count]
    printed.say(f"wrote {target}: {', '.join([_images(len(thumbnails)), *parts])}; {format_bytes(num_bytes)}")
    if not problems["damaged"]:
        return Exit.OK
    printed.say(f"error: {reader.path} is damaged. Run: {command('verify', '--full', reader.path)}")
    return Exit.CORRUPT


def _document(thumbnail: Thumbnail, labels: Labels | None) -> dict[str, JSON]:
    return {
        "position": thumbnail.position,
        "name": thumbnail.name,
        "target": thumbnail.label,
        "class": thumbnail.class_name if labels is not None and labels.names else None,
        "size": thumbnail.size,
        "format": thumbnail.format or None,
        "mode": thumbnail.mode or None,
        "bytes": thumbnail.num_bytes,
        "problem": thumbnail.problem or None,
        "reason": thumbnail.reason or None,
    }


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
    if PLATFORM in ("darwin", "win32"):
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def open_file(path: Path) -> None:
    """Open a file in the desktop's viewer (``xdg-open``, ``open``, the Windows shell); say it if none starts."""
    if typer.launch(str(path.absolute())) != 0:
        printed.say(f"No viewer could be started for {path}. On Linux, xdg-open (package xdg-utils) does it.")
