"""The fault catalogue, from the marks of the tests."""

import ast
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from docs.parts.markdown import table
from tests.faults import NOT_TRIED, PLACES

TESTS = Path(__file__).parent.parent.parent / "tests"


def tables() -> str:
    """A table for each place."""
    found = tried()
    made = []
    for letter, (heading, _) in PLACES.items():
        numbers = sorted((n for n in {*found, *NOT_TRIED} if n[0] == letter), key=lambda number: int(number[1:]))
        rows = [(number, *_row(number, found.get(number, []))) for number in numbers]
        made.append(f"## {heading}\n\n{table(('', 'what happens', 'what you see', 'tested by'), rows)}")
    return "\n\n".join(made)


def tried() -> dict[str, list[tuple[str, str, str]]]:
    """Read the marks out of the tests: for each fault (test, what happens, what is seen), the texts often empty."""
    found: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for path in sorted(TESTS.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for mark in getattr(node, "decorator_list", ()):
                if isinstance(mark, ast.Call) and getattr(mark.func, "id", "") == "fault":
                    number, what, seen = (*map(ast.literal_eval, mark.args), "", "")[:3]
                    found[number].append((f"{path.name}::{node.name}", what, seen))
    return found


def _row(number: str, marks: Sequence[tuple[str, str, str]]) -> tuple[str, str, str]:
    if number in NOT_TRIED:
        what, why = NOT_TRIED[number]
        return what, why, "not tested"
    texts = [(what, seen) for _, what, seen in marks if what]
    return *(texts or [("", "")])[0], "<br>".join(f"`{test}`" for test, _, _ in marks)
