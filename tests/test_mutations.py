"""The faults that `tools/mutants.py` puts into modules: which there are, and what they put in place of what."""

import ast

import pytest

from tools.mutations import apply, find_changes

SOURCE = '''"""A module."""
LIMIT = 3  # not in a function


def total(values: "list[int]", start: int = 0) -> "int":
    """A docstring."""
    print(f"é {1 + 2}", "é")
    while start < 10:
        start += (1
                  if values else 2)
    return start - 1
'''


def _mutants(line: int) -> dict[str, list[str]]:
    """Return by kind the texts that change on a line, as they become."""
    source = SOURCE.encode()
    found: dict[str, list[str]] = {}
    for change in find_changes(source).get(line, []):
        ast.parse(apply(source, change))
        found.setdefault(change.kind, []).append(f"{source[change.start : change.end].decode()} -> {change.now}")
    return found


@pytest.mark.parametrize("line", [1, 2, 5, 6])
def test_only_what_runs_in_a_function_is_changed(line):
    assert _mutants(line) == {}


def test_calls_and_texts_beyond_ascii():
    assert _mutants(7) == {
        "call dropped": ["""print(f"é {1 + 2}", "é") -> pass"""],
        "constant changed": [""""é" -> 'é~\'"""],
    }


def test_comparisons_conditions_and_numbers():
    assert _mutants(8) == {
        "condition negated": ["start < 10 -> (not start < 10)"],
        "comparison swapped": ["start < 10 -> (start <= 10)"],
        "constant changed": ["10 -> 11"],
    }


def test_several_lines():
    text = "start += (1\n                  if values else 2)"
    assert _mutants(9) == {
        "sign swapped": [f"{text} -> start -= 1 if values else 2"],
        "constant changed": ["1 -> 2"],
    }
    assert _mutants(10) == {"condition negated": ["values -> (not values)"], "constant changed": ["2 -> 3"]}


def test_returned_values():
    assert _mutants(11) == {
        "None returned": ["return start - 1 -> return None"],
        "sign swapped": ["start - 1 -> (start + 1)"],
        "constant changed": ["1 -> 2"],
    }
