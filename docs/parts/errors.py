"""The generated parts of docs/errors.md."""

from docs.parts import error_facts
from docs.parts.markdown import table
from recordzoo.errors import RecordZooError


def section(kind: type[RecordZooError]) -> str:
    """How an error is caught, its exit code and its attributes."""
    head = ("caught by `except`", "exit code", "attributes")
    return table(head, [error_facts.facts(kind, error_facts.attributes())])


def attributes() -> str:
    """What the attributes of errors say."""
    given = sorted(set().union(*error_facts.attributes().values()))
    return table(("attribute", "meaning"), [(f"`{name}`", error_facts.MEANINGS[name]) for name in given])
