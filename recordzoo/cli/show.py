"""`show`: a record set's images as a contact sheet or a page."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import PngImagePlugin

from recordzoo import durable
from recordzoo.bars import clean
from recordzoo.cli import output, targets
from recordzoo.cli.changed import say_changes
from recordzoo.cli.exits import Exit
from recordzoo.cli.progress import make_progress
from recordzoo.errors import ArgumentError
from recordzoo.looking.broken import AT_MOST, find_broken
from recordzoo.looking.captions import is_drawable, load_font
from recordzoo.looking.choose import ORDERS, Choice, candidates, choose, picture_field
from recordzoo.looking.labels import Labels, load_labels
from recordzoo.looking.page import BOX as PAGE_BOX
from recordzoo.looking.page import GENERATOR, Card, write_page
from recordzoo.looking.sheet import BOX, Cell, draw_sheet
from recordzoo.looking.thumbnail import Thumbnail, make_thumbnail, quiet
from recordzoo.program import command
from recordzoo.progress import format_bytes
from recordzoo.records.reader import RecordReader

DEFAULT_NUMBER = {"png": 48, "html": 200}
MOST = {"png": 1000, "html": 5000}
_ENDINGS = {"png": (".png",), "html": (".html", ".htm")}
_HEAD_BYTES = 4096  # of a page or a sheet, in which it says who made it


@dataclass(frozen=True)
class Wish:
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

    @property
    def kind(self) -> str:
        """The kind of file: "png" or "html"."""
        ending = "" if self.output is None else self.output.suffix.lower()
        return "html" if self.as_html or ending in _ENDINGS["html"] else "png"


def show_images(path: str, wish: Wish, *, as_json: bool) -> int:
    """Write a sheet or a page of a record set's images; returns the exit code."""
    _check(wish)
    reader = RecordReader(targets.find_record_set(path))
    say_changes(reader)
    title = reader.path.name.removesuffix(".records")
    target = _output(wish, title)
    field = picture_field(reader)
    labels = load_labels(reader)
    found = candidates(reader, field, wish.split, labels, wish.classes)
    choice = _choose(reader, field, found, labels, wish)
    if not choice.positions:
        return _say_nothing(choice, wish, as_json=as_json)
    subtitle = describe(choice, labels, wish)
    with quiet():
        thumbnails = _thumbnails(reader, field, choice.positions, wish)
        if wish.kind == "html":
            data, seen = _page(thumbnails, labels, title, subtitle)
        else:
            data, seen = _sheet(thumbnails, labels, title, subtitle, wish)
    durable.replace_file(target, data)
    return _report(target, len(data), seen, choice, labels, wish, reader.path, as_json=as_json)


def describe(choice: Choice, labels: Labels | None, wish: Wish) -> str:
    """Say in one line which images these are: ``12 of 4,000 images, 12 of 200 classes, seed 0``."""
    count, total = f"{len(choice.positions):,}", _images(choice.num_candidates)
    if wish.order == "broken":
        parts = [f"{count} broken of {total} that were looked at"]
    elif wish.order in ("largest", "smallest"):
        parts = [f"the {count} {wish.order} of {total}"]
    else:
        parts = [f"{count} of {total}" if len(choice.positions) < choice.num_candidates else total]
    if labels is not None and choice.num_classes is not None:
        shown = len({_label(labels, position) for position in choice.positions})
        of = f"{shown:,} of " if shown < choice.num_classes else ""
        parts.append(f"{of}{choice.num_classes:,} {'class' if choice.num_classes == 1 else 'classes'}")
    if wish.split is not None:
        parts.insert(0, f"split {wish.split}")
    if wish.order == "random" or (wish.order == "class" and labels is not None):
        parts.append(f"seed {wish.seed}")
    return ", ".join(parts)


def _check(wish: Wish) -> None:
    if wish.order not in ORDERS:
        raise ArgumentError(f"Unknown value {wish.order!r} for --order. Valid values are {', '.join(ORDERS)}.")
    if _number(wish) > MOST[wish.kind]:
        raise ArgumentError(f"--number {wish.number:,} is too many for one file: at most {MOST[wish.kind]:,}.")
    endings = _ENDINGS[wish.kind]
    if wish.output is not None and wish.output.suffix.lower() not in endings:
        raise ArgumentError(
            f"--output {wish.output} does not end with {' or '.join(endings)}. A sheet is a .png, a page a .html."
        )


def _number(wish: Wish) -> int:
    return DEFAULT_NUMBER[wish.kind] if wish.number is None else wish.number


def _output(wish: Wish, title: str) -> Path:
    """Return where the file goes; by default into the current directory, over nothing but an earlier one."""
    if wish.output is not None:
        return wish.output
    path = Path(f"{title}.{wish.kind}")
    if path.exists() and not _is_ours(path):
        raise ArgumentError(f"{path} is there, and was not made by `recordzoo show`. Give --output.", path=str(path))
    return path


def _is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        return GENERATOR.encode() in file.read(_HEAD_BYTES)


def _choose(reader: RecordReader, field: str, found: NDArray[np.int64], labels: Labels | None, wish: Wish) -> Choice:
    number = _number(wish)
    if wish.order != "broken":
        return choose(reader, field, found, labels, order=wish.order, number=number, seed=wish.seed)
    broken = find_broken(
        reader,
        field,
        found,
        number=number,
        seed=wish.seed,
        progress=make_progress(),
        at_most=None if wish.full else AT_MOST,
    )
    return Choice(broken.positions, broken.num_looked_at)


def _thumbnails(reader: RecordReader, field: str, positions: Sequence[int], wish: Wish) -> Iterator[Thumbnail]:
    reader.hint(field, positions)
    box = PAGE_BOX if wish.kind == "html" else BOX
    for position in positions:
        yield make_thumbnail(reader, field, position, box, enlarge=wish.kind == "png")


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
    thumbnails: Iterator[Thumbnail], labels: Labels | None, title: str, subtitle: str, wish: Wish
) -> tuple[bytes, list[Thumbnail]]:
    seen = list(thumbnails)
    cells = [_cell(thumbnail, labels, wish.order) for thumbnail in seen]
    font = load_font(12, wish.font)
    if not all(is_drawable(clean(text), font) for cell in cells for text in (cell.caption, *cell.details)):
        output.say(
            "Some names have characters that the sheet's font lacks: --font FILE takes another font, and --html shows "
            "them as they are."
        )
    sheet = draw_sheet(cells, title, subtitle, font=wish.font)
    info = PngImagePlugin.PngInfo()
    info.add_text("Software", GENERATOR)
    file = io.BytesIO()
    sheet.save(file, "PNG", pnginfo=info)
    return file.getvalue(), seen


def _cell(thumbnail: Thumbnail, labels: Labels | None, order: str) -> Cell:
    label = _label(labels, thumbnail.position)
    caption = "" if labels is None or label is None else labels.name(label)
    details = [_short_name(labels, thumbnail)]
    if order in ("largest", "smallest"):
        size = "" if thumbnail.size is None else f"{thumbnail.size[0]:,} x {thumbnail.size[1]:,}, "
        details.append(f"{size}{format_bytes(thumbnail.num_bytes)}")
    return Cell(thumbnail.image, caption, details, thumbnail.reason)


def _say_nothing(choice: Choice, wish: Wish, *, as_json: bool) -> int:
    """There is nothing to show, and nothing is written: good if broken images were looked for."""
    if wish.order != "broken":
        raise ArgumentError(
            "There is no image in this split or of this class."
            if wish.split or wish.classes
            else ("The record set has no images.")
        )
    if as_json:
        output.put_json({"output": None, "images": [], "of": choice.num_candidates, "order": wish.order})
    else:
        output.say(f"none of {_images(choice.num_candidates)} that were looked at is broken; nothing is written")
    return Exit.OK


def _report(
    target: Path,
    num_bytes: int,
    thumbnails: Sequence[Thumbnail],
    choice: Choice,
    labels: Labels | None,
    wish: Wish,
    path: Path,
    *,
    as_json: bool,
) -> int:
    if as_json:
        output.put_json(
            {
                "output": str(target),
                "format": wish.kind,
                "size_bytes": num_bytes,
                "order": wish.order,
                "seed": wish.seed,
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


# Any: JSON values.
def _document(thumbnail: Thumbnail, labels: Labels | None) -> dict[str, Any]:
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
