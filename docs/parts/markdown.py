"""Tables and paragraphs in Markdown."""

import html
import re
from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table."""
    cells = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(cell, row)) + " |" for row in cells)


def cell(text: str) -> str:
    """Write a cell with bars so that Python-Markdown and GitHub both show them.

    Python-Markdown keeps the backslash of an escaped bar in code, so such code is written as HTML.
    """
    text = re.sub(r"`([^`]*\|[^`]*)`", lambda code: f"<code>{html.escape(code[1]).replace('|', '&#124;')}</code>", text)
    return text.replace("|", "&#124;")


def unwrapped(text: str) -> str:
    """Join the lines of each paragraph."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def fenced(language: str, code: str) -> str:
    """Write a block of code."""
    return f"```{language}\n{code.strip()}\n```"
