"""A drawn card of one sample of a dataset: a picture with what the samples have, beside the code that returns them.

The picture is an SVG in the page, whose colours are the theme's. Words of the dataset's task and of its samples decide
what is drawn over the subject (`DRAWINGS`), so a new dataset has its card without any work.
"""

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from PIL import Image, ImageDraw

from docs.parts.expression import expression
from docs.parts.fakes import are_wanted, seen
from docs.parts.shapes import Shape
from docs.parts.subjects import HEIGHT, SUBJECTS, VIEW, WIDTH, Subject
from recordzoo.catalogue import Entry, entry

NOTE = "A drawing, made from what is known of the samples; not an image of the dataset."
_MARGIN, _LANE = 4, 25  # round the image; below it, for one thing
_LEFT = (WIDTH - HEIGHT) // 2  # of the square in the middle of a subject
_SMALL = 32  # images of at most so many pixels on a side are drawn as pixels
_FINE = 6  # each is the mean of so many by so many
_TONES = 5
_REGIONS = 6  # colours of masks
_SET = (1, 2, 5, 9, 10, 14)  # attributes
_ONE_BOX = "[4]"  # among the words where a sample has a single box


@dataclass(frozen=True)
class Drawn:
    """What is known of a dataset when its picture is drawn.

    Attributes:
        facts: Its entry.
        subject: What the picture shows.
        words: Those of its task, and the words with which its samples and fields are described.
        grid: The pixels on a side, where there are few; otherwise 0.
    """

    facts: Entry
    subject: Subject
    words: frozenset[str]
    grid: int = 0

    @property
    def left(self) -> int:
        """The left edge: an image of few pixels is square, and the middle of the subject is shown."""
        return _LEFT if self.grid else 0


def figure(name: str) -> str:
    """Return the HTML of a dataset's card; nothing without the fakes, from which the samples are known."""
    if not are_wanted():
        return ""
    expressions = [expression(kind, samples) for kind, samples in seen(name).samples.items() if samples]
    caption = f"<figcaption>{NOTE}</figcaption>"
    return "\n".join(['<figure class="card">', picture(name), "<div>", *expressions, caption, "</div>", "</figure>"])


def picture(name: str) -> str:
    """Return the SVG of a dataset's card; nothing without the fakes."""
    if not are_wanted():
        return ""
    drawn = known(name)
    draws = list(dict.fromkeys(draw for word, draw in DRAWINGS.items() if word in drawn.words))
    below = [draw(drawn) for draw in draws if draw in _BELOW]
    size = f'width="{WIDTH - 2 * drawn.left}" height="{HEIGHT}"'
    full = f"0 0 {WIDTH + 2 * _MARGIN} {HEIGHT + 2 * _MARGIN + _LANE * len(below)}"
    lines = [
        f'<svg class="drawn" viewBox="{full}" role="img">',
        f"<title>{escape(_title(drawn))}</title>",
        f'<g transform="translate({_MARGIN - drawn.left} {_MARGIN})">',
        f'<svg x="{drawn.left}" {size} viewBox="{drawn.left} 0 {WIDTH - 2 * drawn.left} {HEIGHT}">',
        f'<rect class="paper" x="{drawn.left}" {size}/>',
        _pixels(drawn.subject, drawn.grid) if drawn.grid else "".join(map(_toned, drawn.subject.shapes)),
        *(draw(drawn) for draw in draws if draw not in _BELOW),
        "</svg>",
        f'<rect class="frame" x="{drawn.left}" {size} rx="3"/>',
        *(
            f'<g transform="translate({drawn.left} {HEIGHT + 8 + _LANE * number})">{text}</g>'
            for number, text in enumerate(below)
        ),
        "</g>",
        "</svg>",
    ]
    return "\n".join(filter(None, lines))


def known(name: str) -> Drawn:
    """Find out what a dataset's picture has."""
    facts, found = entry(name), seen(name)
    manifest = found.record_set.manifest
    texts = [text for samples in found.samples.values() for each in samples for text in (each.arguments, *each.items)]
    words = {*facts.task.split(", "), *manifest.blobs, *manifest.arrays, *re.findall(r"\w+", " ".join(texts))}
    if any("[4]" in text for text in texts):
        words.add(_ONE_BOX)
    shape = next(iter(manifest.blobs.values())).shape or ()
    grid = shape[0] if len(shape) > 1 and max(shape[:2]) <= _SMALL else 0
    told = _words(" ".join([facts.summary, *(facts.classes or ())]))
    subject = next((each for each in SUBJECTS if each.words & told), VIEW)
    return Drawn(facts, subject, frozenset(words), grid)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def _title(drawn: Drawn) -> str:
    return f"A drawn sample of {drawn.facts.title}: an image for {drawn.facts.task}"


def _toned(shape: Shape) -> str:
    return _path(shape, f'class="{_kind(shape)}" style="--tone: {shape.tone:.0%}"')


def _kind(shape: Shape) -> str:
    return "line" if shape.width else "fill"


def _path(shape: Shape, attributes: str) -> str:
    width = f' stroke-width="{shape.width:g}"' if shape.width else ""
    return f'<path {attributes}{width} d="{shape.path}"/>'


def _pixels(subject: Subject, number: int) -> str:
    """Draw a subject as so many rows of pixels, with the lines between them."""
    image = _gray(subject, number)
    rows: dict[int, str] = {}
    for y in range(number):
        tones = [round(int(image[y, x]) * _TONES / 255) for x in range(number)]
        x = 0
        for tone, run in itertools.groupby(tones):
            length = len(list(run))
            rows[tone] = rows.get(tone, "") + f"M{x},{y}h{length}v1h-{length}z"
            x += length
    rows.pop(0, None)
    found = [f'<path class="fill" style="--tone: {tone / _TONES:.0%}" d="{d}"/>' for tone, d in sorted(rows.items())]
    lines = "".join(f"M{each},0v{number}M0,{each}h{number}" for each in range(1, number))
    scale = f"translate({_LEFT} 0) scale({HEIGHT / number:.4g})"
    return f'<g transform="{scale}">{"".join(found)}<path class="grid" d="{lines}"/></g>'


def _gray(subject: Subject, number: int) -> np.ndarray:
    """Return the middle of a subject as pixels, uint8 [number, number]."""
    side = number * _FINE
    scale = side / HEIGHT
    image = Image.new("L", (side, side))
    draw = ImageDraw.Draw(image)
    for shape in subject.shapes:
        tone, half = round(255 * shape.tone), shape.width * scale / 2
        points = [((x - _LEFT) * scale, y * scale) for x, y in shape.outline]
        if not half:
            draw.polygon(points, fill=tone)
            continue
        draw.line(points, fill=tone, width=round(2 * half), joint="curve")
        for x, y in points:
            draw.ellipse((x - half, y - half, x + half, y + half), fill=tone)
    return np.asarray(image.resize((number, number), Image.Resampling.BOX))


# What is drawn over the subject.


def _boxes(drawn: Drawn) -> str:
    objects = drawn.subject.objects[: 1 if _ONE_BOX in drawn.words else None]
    return "".join(
        f'<rect class="{kind}" x="{x:.0f}" y="{y:.0f}" width="{to_x - x:.0f}" height="{to_y - y:.0f}" rx="2"/>'
        for x, y, to_x, to_y in map(_bounds, objects)
        for kind in ("halo", "box")
    )


def _bounds(shapes: Sequence[Shape]) -> tuple[float, float, float, float]:
    """Return the edges of a box round shapes, inside the image: left, top, right, bottom."""
    far = [(x, y, shape.width / 2 + 4) for shape in shapes for x, y in shape.outline]
    left, top = min(x - w for x, _, w in far), min(y - w for _, y, w in far)
    right, bottom = max(x + w for x, _, w in far), max(y + w for _, y, w in far)
    return max(4, left), max(4, top), min(WIDTH - 4, right), min(HEIGHT - 4, bottom)


def _masks(drawn: Drawn) -> str:
    """Colour each object; where every pixel has a class, all that is behind them, too."""
    groups: list[Sequence[Shape]] = list(drawn.subject.objects)
    found = ""
    if drawn.facts.task in ("segmentation", "panoptic segmentation"):
        groups = [*((shape,) for shape in drawn.subject.ground), *groups]
        found = '<rect class="region-0" width="100%" height="100%"/>'
    for number, shapes in enumerate(groups, start=1):
        found += "".join(_path(shape, f'class="{_kind(shape)} region-{number % _REGIONS}"') for shape in shapes)
    return f'<g class="mask">{found}</g>'


def _contours(drawn: Drawn) -> str:
    """Draw lines round the objects: the objects again, over larger ones."""
    shapes = [shape for shapes in drawn.subject.objects for shape in shapes]
    lines = [f'<path class="contour" stroke-width="{shape.width + 6:g}" d="{shape.path}"/>' for shape in shapes]
    return "".join([*lines, *map(_toned, shapes)])


def _points(drawn: Drawn) -> str:
    return "".join(f'<circle class="point" cx="{x:g}" cy="{y:g}" r="3.5"/>' for x, y in drawn.subject.points)


def _label(drawn: Drawn) -> str:
    names, number = drawn.facts.classes or (), drawn.subject.number
    fitting = (name for name in names if drawn.subject.words & _words(name))
    there = drawn.facts.num_classes or number + 1
    if "several labels" in drawn.words:
        return _chips("label 3", "label 5", "label 8")
    return _chips(next(fitting, names[number % len(names)] if names else f"label {number % there}"))


def _chips(*texts: str) -> str:
    found, x = "", 0.0
    for text in texts:
        width = 6.2 * len(text) + 14
        found += f'<rect class="chip" x="{x:g}" width="{width:g}" height="18" rx="9"/>'
        found += f'<text x="{x + width / 2:g}" y="13" text-anchor="middle">{escape(text)}</text>'
        x += width + 5
    return found


def _corruption(drawn: Drawn) -> str:
    """Draw slanting lines, which hide a part of the image."""
    lines = "".join(f"M{x},0L{x - 90},{HEIGHT}" for x in range(10, WIDTH + 100, 14))
    return f'<path class="hatch" d="{lines}"/>'


def _small_copy(drawn: Drawn) -> str:
    return (
        f'<svg x="8" y="98" width="74" height="74" viewBox="{_LEFT} 0 {HEIGHT} {HEIGHT}"><rect class="paper" '
        f'width="100%" x="{_LEFT}" height="100%"/>{_pixels(drawn.subject, 16)}</svg>'
        '<rect class="frame" x="8" y="98" width="74" height="74"/>'
    )


def _frames(drawn: Drawn) -> str:
    """Draw the objects where the next frames have them, fainter and fainter."""
    shapes = "".join(map(_toned, itertools.chain(*drawn.subject.objects)))
    return "".join(
        f'<g transform="translate({far} {far // 4})" opacity="{seen}">{shapes}</g>'
        for far, seen in ((24, 0.35), (46, 0.18))
    )


def _attributes(drawn: Drawn) -> str:
    """Draw a row of marks, of which some are set."""
    return "".join(
        f'<rect class="{"set" if number in _SET else "unset"}" x="{14 * number}" y="4" width="10" height="10" rx="2"/>'
        for number in range(17)
    )


def _caption(drawn: Drawn) -> str:
    return f'<text y="13" font-style="italic">{escape(drawn.subject.caption)}</text>'


Draw = Callable[[Drawn], str]
DRAWINGS: dict[str, Draw] = {
    "robustness": _corruption,
    "video prediction": _frames,
    "super resolution": _small_copy,
    "contours": _contours,
    "boundaries": _contours,
    "segmentation": _masks,
    "panoptic segmentation": _masks,
    "mask": _masks,
    "boxes": _boxes,
    "bbox": _boxes,
    "bndbox": _boxes,
    "parts": _points,
    "landmarks": _points,
    "keypoints": _points,
    "classification": _label,
    "identity": _label,
    "retrieval": _label,
    "outlier detection": _label,
    "attributes": _attributes,
    "captions": _caption,
}
"""What is drawn for a word of a task, of a field or of a sample; the later ones lie over the others."""

_BELOW = (_label, _attributes, _caption)  # below the image, not over it
