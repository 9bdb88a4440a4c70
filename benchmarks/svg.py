"""A bar chart for the documentation, as SVG: readable on a phone, and dark where the reader's system is.

The label stands above its bar, so that a chart of 480 pixels, shown on 360, still has letters of 11 pixels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 480
LABEL_PX = 15
_MARGIN, _BAR, _LABEL, _GAP, _LEGEND = 16, 16, 20, 14, 26
_NUMBERS = 150  # room for the text behind the longest bar

_STYLE = """
text { font: %PXpx system-ui, sans-serif; fill: #18181b; }
.paper { fill: #ffffff; } .pale { fill: #52525b; } .strong { font-weight: 600; }
.ours0 { fill: #0d9488; } .ours1 { fill: #5eb5ab; } .others0 { fill: #8b8f98; } .others1 { fill: #b6bac2; }
@media (prefers-color-scheme: dark) {
  text { fill: #f4f4f5; } .paper { fill: #1e2129; } .pale { fill: #b4b8c2; }
  .ours0 { fill: #2dd4bf; } .ours1 { fill: #1f8f83; } .others0 { fill: #9ca3af; } .others1 { fill: #6b7280; }
}
""".replace("%PX", str(LABEL_PX))


@dataclass(frozen=True)
class Group:
    """The bars of one loader: a number for each series (None: no bar), and a note after the first number."""

    label: str
    values: Sequence[float | None]
    note: str = ""
    is_ours: bool = False


def draw(groups: Sequence[Group], title: str, series: Sequence[str] = ()) -> str:
    """Draw horizontal bars, one below the other.

    Args:
        title: Says what the numbers are.
        series: What the bars of a group are, where there are several.
    """
    most = max((value or 0 for group in groups for value in group.values), default=0) or 1
    parts = [_text(_MARGIN, _MARGIN + 12, title, "strong")]
    top = _MARGIN + _LEGEND
    for number, name in enumerate(series):
        parts += [_box(_MARGIN, top, 12, 12, f"ours{number}"), _box(_MARGIN + 14, top, 12, 12, f"others{number}")]
        parts.append(_text(_MARGIN + 34, top + 11, name, "pale"))
        top += _LEGEND - 4
    for group in groups:
        top += _GAP
        parts.append(_text(_MARGIN, top + 11, group.label, "strong" if group.is_ours else ""))
        top += _LABEL
        for number, value in enumerate(group.values):
            length = (WIDTH - 2 * _MARGIN - _NUMBERS) * (value or 0) / most
            parts.append(_box(_MARGIN, top, length, _BAR, f"{'ours' if group.is_ours else 'others'}{number}"))
            note = f"  {group.note}" if group.note and not number else ""
            ending = "did not run" if value is None else f"{value:,.0f}{note}"
            parts.append(_text(_MARGIN + length + 8, top + 13, ending, "pale" if number else ""))
            top += _BAR + 3
    height = top + _MARGIN
    paper = f'<rect class="paper" width="{WIDTH}" height="{height}" rx="6"/>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    body = "\n".join([paper, *parts])
    return f'{head} role="img" aria-label="{escape(title)}">\n<style>{_STYLE}</style>\n{body}\n</svg>\n'


def _box(left: float, top: float, width: float, height: float, kind: str) -> str:
    return f'<rect class="{kind}" x="{left:g}" y="{top:g}" width="{width:.1f}" height="{height:g}" rx="2"/>'


def _text(left: float, base: float, text: str, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{left:.1f}" y="{base:g}" xml:space="preserve">{escape(text)}</text>'
