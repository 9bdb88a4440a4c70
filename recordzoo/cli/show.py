"""`show`: a record set's images as a contact sheet or a page."""

import io
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from PIL import PngImagePlugin

from recordzoo.base import durable
from recordzoo.base.meant import did_you_mean
from recordzoo.base.program import command
from recordzoo.base.progress import format_bytes
from recordzoo.base.text import clean
from recordzoo.base.types import JSON
from recordzoo.cli import output, targets
from recordzoo.cli.changed import say_changes
from recordzoo.cli.completion import complete_path
from recordzoo.cli.exits import Exit
from recordzoo.cli.options import Json, RecordSet, SplitOption, file_option
from recordzoo.cli.progress import make_progress
from recordzoo.errors import ArgumentError
from recordzoo.net.url import Url
from recordzoo.preview.broken import AT_MOST, find_broken
from recordzoo.preview.captions import is_drawable, load_font
from recordzoo.preview.choose import ORDERS, Choice, candidates, choose, picture_field
from recordzoo.preview.labels import Labels, load_labels
from recordzoo.preview.page import BOX as PAGE_BOX
from recordzoo.preview.page import GENERATOR, Card, write_page
from recordzoo.preview.sheet import BOX, Cell, draw_sheet
from recordzoo.preview.thumbnail import Thumbnail, make_thumbnail
from recordzoo.recipes.images import quiet
from recordzoo.records.reader import RecordReader
from recordzoo.system.names import PLATFORM

DEFAULT_NUMBER = {"png": 48, "html": 200}
MOST = {"png": 1000, "html": 5000}
_ENDINGS = {"png": (".png",), "html": (".html", ".htm")}
_HEAD_BYTES = 4096  # of a page or a sheet, in which it says who made it


def show(
    path: RecordSet,
    split: SplitOption = None,
    classes: Annotated[
        list[str] | None,
        typer.Option("--class", metavar="NAME|NUMBER", help="Only images of this class; may be repeated."),
    ] = None,
    number: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="How many at most; default: 48 on a sheet, 200 on a page.")
    ] = None,
    order: Annotated[
        str,
        typer.Option(
            metavar="class|random|largest|smallest|broken",
            help="Which: evenly by class, at random, the largest or smallest in bytes, or those that are broken.",
        ),
    ] = "class",
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Another seed chooses other images.")] = 0,
    output: Annotated[Path | None, file_option("The file to write; default: NAME.png or NAME.html here.")] = None,
    as_html: Annotated[
        bool, typer.Option("--html", help="Write one self-contained page: larger images, facts, a class filter.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Look for broken images among all, not among 20,000 at random.")
    ] = False,
    font: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A font file for a sheet with names that are not in Latin letters.",
            autocompletion=complete_path,
        ),
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
    options = _Options(split, classes or (), number, seed, order, output, as_html, full, font, open_viewer)
    _check(options)
    reader = RecordReader(targets.find_record_set(path), cache_bytes=0)  # at a URL: only what is shown
    say_changes(reader)
    title = reader.path.name.removesuffix(".records")
    target = _output(options, title)
    field = picture_field(reader)
    labels = load_labels(reader)
    found = candidates(reader, field, options.split, labels, options.classes)
    choice = _choose(reader, field, found, labels, options)
    if not choice.positions:
        return _say_nothing(reader, choice, options, as_json=as_json)
    subtitle = describe(choice, labels, options)
    with quiet():
        thumbnails = _thumbnails(reader, field, choice.positions, options)
        if options.kind == "html":
            data, seen = _page(thumbnails, labels, title, subtitle)
        else:
            data, seen = _sheet(thumbnails, labels, title, subtitle, options)
    durable.replace_file(target, data)
    code = _report(target, len(data), seen, choice, labels, options, reader.path, as_json=as_json)
    if options.open or (options.open is None and not as_json and is_on_desktop()):
        open_file(target)
    return code


@dataclass(frozen=True)
class _Options:
    """What was asked for; None is the default."""

    split: str | None = None
    classes: Sequence[str] = ()
    number: int | None = None
    seed: int = 0
    order: str = "class"
    output: Path | None = None
    as_html: bool = False
    full: bool = False
    font: Path | None = None
    open: bool | None = None

    @property
    def kind(self) -> str:
        """The kind of file: "png" or "html"."""
        ending = "" if self.output is None else self.output.suffix.lower()
        return "html" if self.as_html or ending in _ENDINGS["html"] else "png"


def describe(choice: Choice, labels: Labels | None, options: _Options) -> str:
    """Say in one line which images these are: ``12 of 4,000 images, 12 of 200 classes, seed 0``."""
    count, total = f"{len(choice.positions):,}", _images(choice.num_candidates)
    if options.order == "broken":
        parts = [f"{count} broken of {total} that were looked at"]
    elif options.order in ("largest", "smallest"):
        parts = [f"the {count} {options.order} of {total}"]
    else:
        parts = [f"{count} of {total}" if len(choice.positions) < choice.num_candidates else total]
    if labels is not None and choice.num_classes is not None:
        shown = len({_label(labels, position) for position in choice.positions})
        of = f"{shown:,} of " if shown < choice.num_classes else ""
        parts.append(f"{of}{choice.num_classes:,} {'class' if choice.num_classes == 1 else 'classes'}")
    if options.split is not None:
        parts.insert(0, f"split {options.split}")
    if options.order == "random" or (options.order == "class" and labels is not None):
        parts.append(f"seed {options.seed}")
    return ", ".join(parts)


def _check(options: _Options) -> None:
    if options.order not in ORDERS:
        hint = did_you_mean(options.order, ORDERS)
        raise ArgumentError(f"Unknown value {options.order!r} for --order. Valid values are {', '.join(ORDERS)}.{hint}")
    if _number(options) > MOST[options.kind]:
        raise ArgumentError(f"--number {options.number:,} is too many for one file: at most {MOST[options.kind]:,}.")
    endings = _ENDINGS[options.kind]
    if options.output is not None and options.output.suffix.lower() not in endings:
        raise ArgumentError(
            f"--output {options.output} does not end with {' or '.join(endings)}. A sheet is a .png, a page a .html."
        )


def _number(options: _Options) -> int:
    return DEFAULT_NUMBER[options.kind] if options.number is None else options.number


def _output(options: _Options, title: str) -> Path:
    """Return where the file goes; by default into the current directory, over nothing but an earlier one."""
    if options.output is not None:
        return options.output
    path = Path(f"{title}.{options.kind}")
    if path.exists() and not _is_ours(path):
        raise ArgumentError(f"{path} is there, and was not made by `recordzoo show`. Give --output.", path=str(path))
    return path


def _is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        return GENERATOR.encode() in file.read(_HEAD_BYTES)


def _choose(
    reader: RecordReader, field: str, found: NDArray[np.int64], labels: Labels | None, options: _Options
) -> Choice:
    number = _number(options)
    if options.order != "broken":
        return choose(reader, field, found, labels, order=options.order, number=number, seed=options.seed)
    broken = find_broken(
        reader,
        field,
        found,
        number=number,
        seed=options.seed,
        progress=make_progress(),
        at_most=None if options.full else AT_MOST,
    )
    return Choice(broken.positions, broken.num_looked_at)


def _thumbnails(reader: RecordReader, field: str, positions: Sequence[int], options: _Options) -> Iterator[Thumbnail]:
    reader.hint(field, positions)
    box = PAGE_BOX if options.kind == "html" else BOX
    for position in positions:
        yield make_thumbnail(reader, field, position, box, enlarge=options.kind == "png")


def _label(labels: Labels | None, position: int) -> int | None:
    return None if labels is None else int(labels.numbers[position])


def _short_name(labels: Labels | None, thumbnail: Thumbnail) -> str:
    return thumbnail.name if labels is None else labels.short(thumbnail.name, int(labels.numbers[thumbnail.position]))


def _page(
    thumbnails: Iterator[Thumbnail], labels: Labels | None, title: str, subtitle: str
) -> tuple[bytes, list[Thumbnail]]:
    seen: list[Thumbnail] = []

    def cards() -> Iterator[Card]:
        for thumbnail in thumbnails:
            seen.append(replace(thumbnail, image=None))  # 5,000 pictures would take 3 GB
            yield Card(thumbnail, _short_name(labels, thumbnail), _label(labels, thumbnail.position))

    text = write_page(cards(), str if labels is None else labels.name, title, subtitle)
    return text.encode(), seen


def _sheet(
    thumbnails: Iterator[Thumbnail], labels: Labels | None, title: str, subtitle: str, options: _Options
) -> tuple[bytes, list[Thumbnail]]:
    seen = list(thumbnails)
    cells = [_cell(thumbnail, labels, options.order) for thumbnail in seen]
    font = load_font(12, options.font)
    if not all(is_drawable(clean(text), font) for cell in cells for text in (cell.caption, *cell.details)):
        output.say(
            "Some names have characters that the sheet's font lacks: --font FILE takes another font, and --html shows "
            "them as they are."
        )
    sheet = draw_sheet(cells, title, subtitle, font=options.font)
    info = PngImagePlugin.PngInfo()
    info.add_text("Software", GENERATOR)
    file = io.BytesIO()
    sheet.save(file, "PNG", pnginfo=info)
    return file.getvalue(), seen


def _cell(thumbnail: Thumbnail, labels: Labels | None, order: str) -> Cell:
    label = _label(labels, thumbnail.position)
    caption = thumbnail.caption if labels is None or label is None else labels.name(label)
    details = [_short_name(labels, thumbnail)]
    if thumbnail.caption not in ("", caption):
        details.append(thumbnail.caption)
    if order in ("largest", "smallest"):
        size = "" if thumbnail.size is None else f"{thumbnail.size[0]:,} x {thumbnail.size[1]:,}, "
        details.append(f"{size}{format_bytes(thumbnail.num_bytes)}")
    return Cell(thumbnail.image, caption, details, thumbnail.reason)


def _say_nothing(reader: RecordReader, choice: Choice, options: _Options, *, as_json: bool) -> int:
    """There is nothing to show, and nothing is written: good if broken images were looked for."""
    if options.order != "broken":
        raise ArgumentError(
            f"There is no image in this split or of this class in {reader.path}."
            if options.split or options.classes
            else f"{reader.path} has no images."
        )
    if as_json:
        output.put_json({"output": None, "images": [], "of": choice.num_candidates, "order": options.order})
    else:
        output.say(f"none of {_images(choice.num_candidates)} that were looked at is broken; nothing is written")
    return Exit.OK


def _report(
    target: Path,
    num_bytes: int,
    thumbnails: Sequence[Thumbnail],
    choice: Choice,
    labels: Labels | None,
    options: _Options,
    path: Path | Url,
    *,
    as_json: bool,
) -> int:
    if as_json:
        output.put_json(
            {
                "output": str(target),
                "format": options.kind,
                "size_bytes": num_bytes,
                "order": options.order,
                "seed": options.seed,
                "of": choice.num_candidates,
                "images": [_document(thumbnail, labels) for thumbnail in thumbnails],
            }
        )
    problems = {kind: sum(t.problem == kind for t in thumbnails) for kind in ("broken", "large", "damaged")}
    told = {"broken": "cannot be decoded", "large": "too large to be shown", "damaged": "damaged"}
    parts = [f"{count:,} {told[kind]}" for kind, count in problems.items() if count]
    output.say(f"wrote {target}: {', '.join([_images(len(thumbnails)), *parts])}; {format_bytes(num_bytes)}")
    if not problems["damaged"]:
        return Exit.OK
    output.say(f"error: {path} is damaged. Run: {command('verify', '--full', path)}")
    return Exit.CORRUPT


def _document(thumbnail: Thumbnail, labels: Labels | None) -> dict[str, JSON]:
    label = _label(labels, thumbnail.position)
    return {
        "position": thumbnail.position,
        "name": thumbnail.name,
        "target": label,
        "class": None if labels is None or label is None or not labels.names else labels.name(label),
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
        output.say(f"No viewer could be started for {path}. On Linux, xdg-open (package xdg-utils) does it.")
