"""Figures of a few quadratic curves: as SVG, and as points, from which pixels are drawn.

A figure is written as its control points, "x,y x,y ..."; a point with a "!" is a corner, the others are rounded off.
"""

import itertools
import math
from dataclasses import dataclass

_STEPS = 6  # points on each curve

Point = tuple[float, float]


@dataclass(frozen=True)
class Shape:
    """A filled figure, or a line where it has a width.

    Attributes:
        tone: How dark it is, from 0 to 1.
        points: Control points of its quadratic curves.
        width: The width of the line; 0: a filled figure.
    """

    tone: float
    points: tuple[Point, ...]
    width: float = 0

    @property
    def curves(self) -> list[tuple[Point, Point, Point]]:
        """Start, control point and end of each curve."""
        middles = [_middle(a, b) for a, b in itertools.pairwise(self.points)]
        if self.width:
            controls = self.points[1:-1] or (middles[0],)
            ends = [self.points[0], *middles[1:-1], self.points[-1]]
        else:
            controls, start = self.points, _middle(self.points[-1], self.points[0])
            ends = [start, *middles, start]
        return list(zip(ends, controls, ends[1:], strict=False))

    @property
    def path(self) -> str:
        """The figure as the `d` of an SVG path."""
        curves = self.curves
        text = "M{:g},{:g}".format(*curves[0][0])
        for _, control, end in curves:
            text += "Q{:g},{:g} {:g},{:g}".format(*control, *end)
        return text if self.width else text + "z"

    @property
    def outline(self) -> list[Point]:
        """Points along the figure."""
        steps = [step / _STEPS for step in range(_STEPS + 1)]
        return [_on(curve, step) for curve in self.curves for step in steps]


def _middle(a: Point, b: Point) -> Point:
    return (a[0] + b[0]) / 2, (a[1] + b[1]) / 2


def _on(curve: tuple[Point, Point, Point], t: float) -> Point:
    (ax, ay), (bx, by), (cx, cy) = curve
    u = 1 - t
    return u * u * ax + 2 * u * t * bx + t * t * cx, u * u * ay + 2 * u * t * by + t * t * cy


def points(text: str) -> tuple[Point, ...]:
    """Parse control points; a corner is a point that comes twice."""
    found: list[Point] = []
    for item in text.split():
        x, _, y = item.rstrip("!").partition(",")
        found += [(float(x), float(y))] * (2 if item.endswith("!") else 1)
    return tuple(found)


def fill(tone: float, text: str) -> Shape:
    """Make a filled figure."""
    return Shape(tone, points(text))


def line(tone: float, width: float, text: str) -> Shape:
    """Make a line."""
    return Shape(tone, points(text), width)


def disc(tone: float, x: float, y: float, across: float, down: float = 0) -> Shape:
    """Make an ellipse of two half axes: eight control points, which lie a little outside."""
    turns = [step * math.pi / 4 for step in range(8)]
    rx, ry = across / 0.927, (down or across) / 0.927
    return Shape(tone, tuple((round(x + rx * math.cos(turn), 1), round(y + ry * math.sin(turn), 1)) for turn in turns))
