"""Cells of tables in a page's HTML: where long code may break, which cells are text, and no empty heads."""

import re

_HEADS = re.compile(r"<thead>.*?</thead>\s*", re.DOTALL)
_EMPTY = re.compile(r"<th(?P<attributes>[^>]*)></th>")
_CELL = re.compile(r"<td(?P<attributes>[^>]*)>(?P<content>.*?)</td>", re.DOTALL)
_CODE = re.compile(r"(?<=<code>).+?(?=</code>)", re.DOTALL)
_TAG = re.compile(r"(<[^>]*>)")
_LONG = re.compile(r"[^\s-]{24,}")
_BREAK = re.compile(
    r"(?<=[=(,:/_|])(?=[\w\"'(\[&])"
    r"|(?<=\w\w\w\.)(?=\w{5})"  # a module's name, not T. or .tar
    r"|(?<=[0-9a-f]{16})(?=(?:[0-9a-f]{16})+\b)"
)
_PROSE = 30
"""A cell with more characters is text: it gets a width at which a line holds several words."""


def breakable(page: str) -> str:
    """Return a page's HTML with places in its cells where long code may break."""
    return _CELL.sub(_cell, page)


def named_heads(page: str) -> str:
    """Leave out rows of heads that are all empty, which Markdown demands; an empty head among others becomes a cell."""
    return _HEADS.sub(_heads, page)


def _heads(heads: re.Match[str]) -> str:
    cells = _EMPTY.sub(r"<td\g<attributes>></td>", heads[0])
    return cells if "<th" in cells.removeprefix("<thead>") else ""


def _cell(cell: re.Match[str]) -> str:
    attributes, content = cell["attributes"], _CODE.sub(_with_breaks, cell["content"])
    if "class=" not in attributes and len(_TAG.sub("", content)) > _PROSE:
        attributes += ' class="prose"'
    return f"<td{attributes}>{content}</td>"


def _with_breaks(code: re.Match[str]) -> str:
    """Let long words of code break after punctuation, and hashes after 16 digits; nowhere else."""
    pieces = _TAG.split(code[0])
    pieces[::2] = [_LONG.sub(lambda word: _BREAK.sub("<wbr>", word[0]), text) for text in pieces[::2]]
    return "".join(pieces)
