"""Names with braces: ``train-{000000..000012}.tar`` stands for 13 names, ``{train,val}.tar`` for two."""

import itertools
import math
import re
from collections.abc import Sequence

from recordzoo.errors import ArgumentError

MAX_NAMES = 1_000_000

_GROUP = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d{1,18})\.\.(\d{1,18})(?:\.\.(\d{1,18}))?")


def expand(text: str) -> list[str]:
    """Return the names that a text with braces stands for; the last group changes fastest, as in a shell.

    A group is a range of numbers, with a step if there is a third number (``{00..10..2}``), or a list. Numbers have the
    digits of the longer end if one begins with 0. Anything else in braces stands for itself.

    Raises:
        ArgumentError: They are more than `MAX_NAMES`.
    """
    parts: list[Sequence[str]] = []
    for number, part in enumerate(_GROUP.split(text)):
        parts.append(_choices(part) if number % 2 else [part])
        if math.prod(map(len, parts)) > MAX_NAMES:
            raise ArgumentError(f"{text} stands for more than {MAX_NAMES:,} names.")
    return ["".join(choice) for choice in itertools.product(*parts)]


def without_braces(text: str) -> str:
    """Leave out groups in braces, with what joins them to the text before: ``train.tar`` of ``train-{00..12}.tar``."""
    return re.sub(r"[-_.]?\{[^{}]*\}", "", text)


def _choices(group: str) -> Sequence[str]:
    match = _RANGE.fullmatch(group)
    if match is None:
        return group.split(",") if "," in group else [f"{{{group}}}"]
    ends = match[1], match[2]
    width = max(map(len, ends)) if any(end.startswith("0") and end != "0" for end in ends) else 0
    first, last = map(int, ends)
    step = max(1, int(match[3] or 1))
    numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    if len(numbers) > MAX_NAMES:
        raise ArgumentError(f"{{{group}}} stands for more than {MAX_NAMES:,} names.")
    return [f"{number:0{width}d}" for number in numbers]
