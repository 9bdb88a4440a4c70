"""Parse untrusted JSON: every value has a type and a range, every error names its place."""

import json
import math
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NoReturn, TypeVar

from recordzoo.base.text import JSON
from recordzoo.errors import ManifestError

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)


def load_document(data: bytes, where: str) -> "Node":
    """Parse a document.

    Args:
        data: Its bytes.
        where: Its path, for messages.

    Raises:
        ManifestError: It is not JSON, an object has a key twice, or a number is not valid JSON.
    """
    try:
        document = json.loads(
            data.decode("utf-8"), object_pairs_hook=_no_duplicates, parse_constant=_no_constant, parse_float=_finite
        )
    except (ValueError, RecursionError) as err:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        problem = "nested too deeply" if isinstance(err, RecursionError) else str(err)
        raise ManifestError(f"{where}: the manifest is not valid JSON ({problem}).", path=where) from err
    return Node(document, where, "the manifest")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return result


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is too large")
    return number


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


class Node:
    """A value of the document with its place, for error messages."""

    def __init__(self, value: JSON, where: str, path: str) -> None:
        self.value, self.where, self.path = value, where, path

    def fail(self, key: str, problem: str) -> NoReturn:
        """Raise an error that names the place."""
        raise ManifestError(
            f"{self.where}: {self.path}: {key!r} {problem}. The record set is damaged or not one; "
            "prepare the dataset again.",
            path=self.where,
        )

    def _is(self, kind: type[T], key: str = "this") -> T:
        if type(self.value) is not kind:  # exactly: True is an int for isinstance
            self.fail(key, f"is a {type(self.value).__name__}, not a {kind.__name__}")
        return self.value

    def get(self, key: str) -> "Node":
        """Return the value of a key."""
        document = self._is(dict)
        if key not in document:
            self.fail(key, "is missing")
        return Node(document[key], self.where, f"{self.path}, {key[:80]!r}")

    def as_text(self, limit: int = 200) -> str:
        """Return a text of at most `limit` characters."""
        text = self._is(str)
        if len(text) > limit:
            self.fail("this", f"is a text of {len(text):,} characters, more than {limit:,}")
        return text

    def as_bool(self) -> bool:
        """Return true or false."""
        return self._is(bool)

    def as_integer(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`."""
        number = self._is(int)
        if not low <= number <= high:
            self.fail("this", f"is {str(number)[:40]}, not between {low} and {high}")
        return number

    def as_list(self, item: Callable[["Node"], T], limit: int = 10_000_000) -> list[T]:
        """Return a list of at most `limit` entries, each read by `item`."""
        values = self._is(list)
        if len(values) > limit:
            self.fail("this", f"has {len(values):,} entries, more than {limit:,}")
        return [item(Node(value, self.where, f"{self.path}[{i}]")) for i, value in enumerate(values)]

    def text(self, key: str, limit: int = 200) -> str:
        """Return the text of a key."""
        return self.get(key).as_text(limit)

    def integer(self, key: str, low: int, high: int) -> int:
        """Return the integer of a key."""
        return self.get(key).as_integer(low, high)

    def matching(self, key: str, pattern: re.Pattern[str]) -> str:
        """Return the text of a key, which must match a pattern completely."""
        text = self.text(key)
        if not pattern.fullmatch(text):
            self.fail(key, f"is {text!r}, which does not match {pattern.pattern}")
        return text

    def one_of(self, key: str, words: type[E]) -> E:
        """Return the text of a key, which must be a member of an enumeration."""
        text = self.text(key)
        if text not in set(words):
            self.fail(key, f"is {text!r}, not one of {', '.join(words)}")
        return words(text)

    def list_of(self, key: str, item: Callable[["Node"], T], limit: int = 10_000_000) -> list[T]:
        """Return the list of a key."""
        return self.get(key).as_list(item, limit)

    def map_of(self, key: str, names: re.Pattern[str] | None, item: Callable[["Node"], T]) -> dict[str, T]:
        """Return the object of a key; its own keys must match `names`, `item` reads its values."""
        node = self.get(key)
        result = {}
        for name in node._is(dict):
            if names is not None and not names.fullmatch(name):
                self.fail(key, f"has the name {name[:80]!r}, which does not match {names.pattern}")
            result[name] = item(node.get(name))
        return result

    def optional(self, key: str, item: Callable[["Node"], T]) -> T | None:
        """Return the value of a key, read by `item`, or None for null."""
        node = self.get(key)
        return None if node.value is None else item(node)
