"""The generated parts of the home page: how fast it is, and a row of pictures of datasets."""

from html import escape

from benchmarks.recipes_page import CHART, TITLE, answer
from docs.parts import card
from recordzoo import catalogue

SHOWN = ("imagenet", "cub200", "coco", "cityscapes", "celeba", "mnist")
"""The datasets whose pictures are on the home page."""


def speed() -> str:
    """The chart and the sentence with which the page of benchmarks opens."""
    return f"![{TITLE}]({CHART})\n\n{answer()}"


def pictures() -> str:
    """Drawn samples that lead to their datasets' pages: HTML, because a link is round a picture and its name."""
    return f'<ul class="sheets">\n{chr(10).join(map(_item, SHOWN))}\n</ul>'


def _item(name: str) -> str:
    title = escape(catalogue.entry(name).title)
    return f'<li><a href="datasets/{name}/">{title}{card.picture(name)}</a></li>'
