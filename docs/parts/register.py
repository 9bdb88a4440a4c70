"""The generated parts by name, and pages with their parts put in."""

import re
from collections.abc import Callable

from docs.parts import api, error_facts, example, home, overview, program, sources

PARTS: dict[str, Callable[[], str]] = {
    "attributes": error_facts.meanings,
    "classes": api.classes,
    "commands": program.commands,
    "datasets": overview.page_table,
    "environment": program.environment,
    "exit codes": program.exit_codes,
    "own data": api.own,
    "sheets": home.pictures,
    "sources": sources.page,
    "speed": home.speed,
    "training": api.training,
    "training example": example.training,
    "tree": error_facts.tree,
    "zoo": api.zoo,
}
_MARK = re.compile(r"^<!-- generated: ([\w ]+) -->$", re.MULTILINE)


def names(text: str) -> list[str]:
    """List the generated parts that a page has, in its order."""
    return _MARK.findall(text)


def expanded(text: str) -> str:
    """Return a page with its generated parts in their places.

    Raises:
        KeyError: There is no part of that name.
    """
    return _MARK.sub(lambda mark: PARTS[mark[1]](), text)
