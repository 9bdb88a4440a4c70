"""Read the objects in the lists of a large JSON document one by one: all at once take ten times its size."""

import json
import re
from collections.abc import Collection, Iterator
from typing import Any, NoReturn

_SPACE = re.compile(r"[ \t\r\n]*")


# Any: a JSON object.
def objects_of(text: str, keys: Collection[str]) -> Iterator[tuple[str, Any, str]]:
    """Yield each object of the lists under some keys of a document, as value and text; None where a list begins.

    Raises:
        ValueError: The text is not one JSON object, or a list holds something else than objects, or NaN.
    """
    decode = json.JSONDecoder(parse_constant=_no_constant).raw_decode
    place = _after(text, 0, "{")
    while text[place : place + 1] != "}":
        key, place = decode(text, place)
        place = _after(text, place, ":")
        if key not in keys:
            _, place = decode(text, place)
        else:
            yield key, None, ""
            place = _after(text, place, "[")
            while text[place : place + 1] != "]":
                try:
                    value, end = decode(text, place)
                except ValueError as err:
                    raise ValueError(f"{err}: {text[place : place + 80]}") from err
                if not isinstance(value, dict):
                    raise ValueError(f"{key} has {text[place : place + 40]!r}, which is no object")
                yield key, value, text[place:end]
                place = _next(text, end, "]")
            place += 1
        place = _next(text, place, "}")


def _next(text: str, place: int, end: str) -> int:
    """Return where the next item begins, or the end of the list or object is."""
    place = _skip(text, place)
    return place if text[place : place + 1] == end else _after(text, place, ",")


def _after(text: str, place: int, mark: str) -> int:
    place = _skip(text, place)
    if text[place : place + 1] != mark:
        raise ValueError(f"{mark!r} is missing at character {place:,}")
    return _skip(text, place + 1)


def _skip(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return place if match is None else match.end()


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")
